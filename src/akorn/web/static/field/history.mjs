// Values over the steps of a whole run: when there are too many, every second one is dropped.

export class History {
  constructor(most = 600) {
    this.most = most;
    this.clear();
  }

  clear() {
    this.stride = 1;
    this.rows = [];
  }

  add(step, row) {
    if (step % this.stride) return;
    this.rows.push(row);
    if (this.rows.length > this.most) {
      this.rows = this.rows.filter((_, i) => i % 2 === 0);
      this.stride *= 2;
    }
  }

  line(name) {
    return { values: this.rows.map((row) => row[name]), step: this.stride };
  }
}

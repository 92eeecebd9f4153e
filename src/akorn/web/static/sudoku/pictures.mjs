// What is drawn beside the board: oscillators as colours, and a small board for each start.

const SHOWN = 16;
const N = 4;

// A direction in N > 2 dimensions: three of its components are red, green and blue.
export function colour(x, at) {
  const part = (i) => Math.round(255 * Math.min(1, Math.max(0, 0.5 + 0.5 * x[at + i])));
  return `rgb(${part(0)} ${part(1)} ${part(2)})`;
}

// 4×4 oscillators on each of the 9×9 squares; x: [81, SHOWN, N].
export function drawOscillators(canvas, x) {
  const pen = canvas.getContext("2d");
  const square = canvas.width / 9;
  const side = (square - 2) / 4;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  for (let i = 0; i < 81; i++) {
    const [left, top] = [(i % 9) * square + 1, Math.floor(i / 9) * square + 1];
    for (let k = 0; k < SHOWN; k++) {
      pen.fillStyle = colour(x, (i * SHOWN + k) * N);
      pen.fillRect(left + (k % 4) * side, top + Math.floor(k / 4) * side, side, side);
    }
  }
  pen.strokeStyle = getComputedStyle(canvas).color;
  pen.lineWidth = 2;
  for (const at of [3 * square, 6 * square]) {
    pen.beginPath();
    pen.moveTo(at, 0);
    pen.lineTo(at, canvas.height);
    pen.moveTo(0, at);
    pen.lineTo(canvas.width, at);
    pen.stroke();
  }
}

export function drawBoard(canvas, puzzle, { digits, chances }) {
  const side = 20;
  canvas.width = canvas.height = 9 * side;
  const pen = canvas.getContext("2d");
  const ink = getComputedStyle(canvas).color;
  pen.clearRect(0, 0, canvas.width, canvas.height);
  pen.textAlign = "center";
  pen.textBaseline = "middle";
  pen.fillStyle = ink;
  for (let i = 0; i < 81; i++) {
    pen.font = `${puzzle[i] ? "bold " : ""}14px system-ui, sans-serif`;
    pen.globalAlpha = puzzle[i] ? 1 : 0.1 + 0.9 * chances[i];
    pen.fillText(digits[i], ((i % 9) + 0.5) * side, (Math.floor(i / 9) + 0.55) * side);
  }
  pen.globalAlpha = 0.6;
  pen.strokeStyle = ink;
  for (const at of [3 * side, 6 * side]) {
    pen.strokeRect(at, -5, 0, 9 * side + 10);
    pen.strokeRect(-5, at, 9 * side + 10, 0);
  }
  pen.globalAlpha = 1;
}

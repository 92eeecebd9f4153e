// Normal numbers as torch draws them on a CPU, so that the page begins where `akorn classify` and `akorn segment` do.

// The Mersenne Twister MT19937 from a seed of 32 bits.
class Twister {
  constructor(seed) {
    this.state = new Uint32Array(624);
    this.state[0] = seed;
    for (let i = 1; i < 624; i++) {
      const before = this.state[i - 1];
      this.state[i] = Math.imul(1812433253, before ^ (before >>> 30)) + i;
    }
    this.at = 624;
  }

  next() {
    if (this.at === 624) this.#twist();
    let y = this.state[this.at++];
    y ^= y >>> 11;
    y ^= (y << 7) & 0x9d2c5680;
    y ^= (y << 15) & 0xefc60000;
    return (y ^ (y >>> 18)) >>> 0;
  }

  #twist() {
    const { state } = this;
    for (let i = 0; i < 624; i++) {
      const y = (state[i] & 0x80000000) | (state[(i + 1) % 624] & 0x7fffffff);
      state[i] = state[(i + 397) % 624] ^ (y >>> 1) ^ (y & 1 ? 0x9908b0df : 0);
    }
    this.at = 0;
  }
}

// What torch.Generator().manual_seed(seed) gives torch.randn, float32, in arrays whose length is a multiple of 16.
export class TorchGenerator {
  constructor(seed) {
    this.twister = new Twister(Number(BigInt(seed) & 0xffffffffn)); // torch takes the lower half of a 64-bit seed
  }

  normal(count) {
    if (count % 16) throw new Error(`torch draws ${count} numbers in another order: expected a multiple of 16`);
    const numbers = Float32Array.from({ length: count }, () => (this.twister.next() & 0xffffff) / 2 ** 24);
    for (let i = 0; i < count; i += 16) {
      for (let j = i; j < i + 8; j++) {
        // Box–Muller, on eight pairs at a time.
        const radius = Math.sqrt(-2 * Math.log(1 - numbers[j]));
        const angle = 2 * Math.PI * numbers[j + 8];
        numbers[j] = radius * Math.cos(angle);
        numbers[j + 8] = radius * Math.sin(angle);
      }
    }
    return numbers;
  }
}

// The 63-bit seed that akorn.runtime.randomness.derive_seed makes from its parts.
export function deriveSeed(...parts) {
  const words = sha256(new TextEncoder().encode(parts.join("/")));
  return ((BigInt(words[0]) << 32n) | BigInt(words[1])) >> 1n;
}

const PRIMES = [];
for (let number = 2; PRIMES.length < 64; number++) {
  if (PRIMES.every((prime) => number % prime)) PRIMES.push(number);
}
const fraction = (value) => Math.floor((value - Math.floor(value)) * 2 ** 32);
const ROUNDS = PRIMES.map((prime) => fraction(Math.cbrt(prime)));

// The eight words of SHA-256. (crypto.subtle has it too, but only on secure pages.)
export function sha256(bytes) {
  const hash = Uint32Array.from(PRIMES.slice(0, 8), (prime) => fraction(Math.sqrt(prime)));
  const padded = new Uint8Array(64 * Math.ceil((bytes.length + 9) / 64));
  padded.set(bytes);
  padded[bytes.length] = 0x80;
  const view = new DataView(padded.buffer);
  view.setUint32(padded.length - 4, 8 * bytes.length);
  const turn = (x, by) => (x >>> by) | (x << (32 - by));
  const w = new Uint32Array(64);
  for (let start = 0; start < padded.length; start += 64) {
    for (let i = 0; i < 16; i++) w[i] = view.getUint32(start + 4 * i);
    for (let i = 16; i < 64; i++) {
      const [x, y] = [w[i - 15], w[i - 2]];
      w[i] = w[i - 16] + (turn(x, 7) ^ turn(x, 18) ^ (x >>> 3)) + w[i - 7] + (turn(y, 17) ^ turn(y, 19) ^ (y >>> 10));
    }
    let [a, b, c, d, e, f, g, h] = hash;
    for (let i = 0; i < 64; i++) {
      const one = (h + (turn(e, 6) ^ turn(e, 11) ^ turn(e, 25)) + ((e & f) ^ (~e & g)) + ROUNDS[i] + w[i]) | 0;
      const two = ((turn(a, 2) ^ turn(a, 13) ^ turn(a, 22)) + ((a & b) ^ (a & c) ^ (b & c))) | 0;
      [a, b, c, d, e, f, g, h] = [(one + two) | 0, a, b, c, (d + one) | 0, e, f, g];
    }
    [a, b, c, d, e, f, g, h].forEach((value, i) => (hash[i] += value));
  }
  return hash;
}

// Random numbers from a seed: the same seed gives the same picture.

export function uniform(seed) {
  let state = (seed ^ 0x9e3779b9) >>> 0;
  return () => {
    // A Weyl sequence whose values are mixed by two multiplications; 32 bits, in [0, 1).
    state = (state + 0x9e3779b9) >>> 0;
    let z = state;
    z = Math.imul(z ^ (z >>> 16), 0x21f0aaad);
    z = Math.imul(z ^ (z >>> 15), 0x735a2d97);
    return ((z ^ (z >>> 15)) >>> 0) / 4294967296;
  };
}

export function fillNormal(array, next) {
  for (let i = 0; i < array.length; i += 2) {
    const radius = Math.sqrt(-2 * Math.log(1 - next()));
    const angle = 2 * Math.PI * next();
    array[i] = radius * Math.cos(angle);
    if (i + 1 < array.length) array[i + 1] = radius * Math.sin(angle);
  }
  return array;
}

// Curves on a canvas: a few lines over steps, with the range of values written beside them.

const COLOURS = ["#2a7fa5", "#d9822b", "#4a9b5c", "#b0559e", "#8a7a2f", "#c2504a", "#5f6fc0", "#5d8f8f"];

export function lineColour(place) {
  return COLOURS[place % COLOURS.length];
}

function shortNumber(value) {
  const size = Math.abs(value);
  if (size >= 1000) return value.toFixed(0);
  return size >= 10 ? value.toFixed(1) : value.toFixed(3);
}

// lines: [{values, step (between values), first}]; options: low and high (a fixed range), marks: [{value, text}], last.
export function drawLines(canvas, lines, { low, high, marks = [], last, lead = 0 } = {}) {
  const style = getComputedStyle(canvas);
  const ratio = Math.min(globalThis.devicePixelRatio || 1, 2);
  const width = canvas.clientWidth || 300;
  const height = canvas.clientHeight || 130;
  if (canvas.width !== Math.round(width * ratio) || canvas.height !== Math.round(height * ratio)) {
    canvas.width = Math.round(width * ratio);
    canvas.height = Math.round(height * ratio);
  }
  const pen = canvas.getContext("2d");
  pen.setTransform(ratio, 0, 0, ratio, 0, 0);
  pen.clearRect(0, 0, width, height);
  let [least, most, end] = [low ?? Infinity, high ?? -Infinity, last ?? 1];
  for (const { values, step = 1, first = 0 } of lines) {
    for (const value of values) {
      if (low === undefined && value < least) least = value;
      if (high === undefined && value > most) most = value;
    }
    end = Math.max(end, first + (values.length - 1) * step);
  }
  if (!(least <= most)) return;
  if (most - least < 1e-9) [least, most] = [least - 0.5, most + 0.5];
  const [left, right, top, bottom] = [8, width - 8, 16, height - 16];
  const x = (at) => left + ((right - left) * at) / end;
  const y = (value) => bottom - ((bottom - top) * (value - least)) / (most - least);
  pen.font = "11px system-ui, sans-serif";
  pen.fillStyle = style.color;
  pen.globalAlpha = 0.75;
  pen.fillText(shortNumber(most), left, 12);
  pen.fillText(shortNumber(least), left, height - 4);
  pen.textAlign = "right";
  pen.fillText(`step ${Math.round(end)}`, right, height - 4);
  pen.textAlign = "left";
  pen.globalAlpha = 1;
  for (const { value, text } of marks) {
    if (value < least || value > most) continue;
    pen.strokeStyle = style.color;
    pen.globalAlpha = 0.6;
    pen.setLineDash([5, 4]);
    pen.beginPath();
    pen.moveTo(left, y(value));
    pen.lineTo(right, y(value));
    pen.stroke();
    pen.setLineDash([]);
    pen.textAlign = "right";
    pen.fillText(text, right, y(value) > 28 ? y(value) - 4 : y(value) + 12);
    pen.textAlign = "left";
    pen.globalAlpha = 1;
  }
  const order = lines.map((_, place) => place).sort((a, b) => (a === lead) - (b === lead)); // the leading one on top
  for (const place of order) {
    const { values, step = 1, first = 0 } = lines[place];
    pen.strokeStyle = lineColour(place);
    pen.lineWidth = place === lead ? 2.5 : 1.25;
    pen.beginPath();
    values.forEach((value, i) => (i ? pen.lineTo(x(first + i * step), y(value)) : pen.moveTo(x(first), y(value))));
    pen.stroke();
    if (values.length === 1) {
      pen.fillStyle = lineColour(place);
      pen.fillRect(x(first) - 2, y(values[0]) - 2, 4, 4);
      pen.fillStyle = style.color;
    }
  }
}

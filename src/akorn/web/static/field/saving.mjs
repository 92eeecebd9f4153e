// What can be saved from the page: a picture, the numbers, a film.

export function download(blob, name) {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

export function savePicture(canvas, name) {
  canvas.toBlob((blob) => download(blob, name), "image/png");
}

// Everything that is needed to draw this state again.
export function asJson(preset, settings, field, history) {
  const round = (values, digits) => Array.from(values, (value) => Number(value.toFixed(digits)));
  const { size, n, area } = field;
  return JSON.stringify({
    kind: "akorn field",
    preset,
    settings: { ...settings, size },
    steps: field.steps,
    stride: history.stride,
    energy: round(history.line("energy").values, 6),
    order: round(history.line("order").values, 6),
    stimulus: Array.from({ length: size }, (_, row) => field.stimulus.subarray(row * size, (row + 1) * size).join("")),
    oscillators: Array.from({ length: n }, (_, k) => round(field.x.subarray(k * area, (k + 1) * area), 4)),
  });
}

// A film of a canvas, if the browser can make one.
export class Film {
  static get possible() {
    return typeof MediaRecorder !== "undefined" && typeof HTMLCanvasElement.prototype.captureStream === "function";
  }

  constructor(canvas, name) {
    const parts = [];
    this.recorder = new MediaRecorder(canvas.captureStream(30));
    this.recorder.ondataavailable = (event) => parts.push(event.data);
    this.recorder.onstop = () => {
      const kind = this.recorder.mimeType.split(";")[0] || "video/webm";
      download(new Blob(parts, { type: kind }), `${name}.${kind.split("/")[1]}`);
    };
    this.recorder.start();
  }

  stop() {
    this.recorder.stop();
  }
}

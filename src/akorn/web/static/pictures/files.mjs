// Pictures from files, as models take them: planes of bytes.

import { resizePicture } from "./resize.mjs";

// {name, width, height, planes: red, green and blue}; throws a readable error.
export async function readPicture(blob, name) {
  let bitmap;
  try {
    bitmap = await createImageBitmap(blob, { colorSpaceConversion: "none" });
  } catch {
    throw new Error(`${name}: this browser cannot read it as a picture.`);
  }
  const { width, height } = bitmap;
  const pen = new OffscreenCanvas(width, height).getContext("2d", { willReadFrequently: true });
  pen.fillStyle = "white"; // behind what is transparent
  pen.fillRect(0, 0, width, height);
  pen.drawImage(bitmap, 0, 0);
  const { data } = pen.getImageData(0, 0, width, height);
  const planes = [0, 1, 2].map((k) => Uint8Array.from({ length: width * height }, (_, i) => data[4 * i + k]));
  return { name, width, height, planes };
}

// The middle square at 32 × 32, as `akorn classify` cuts it.
export function asSquare(picture, side) {
  const cut = Math.min(picture.width, picture.height);
  const [left, top] = [Math.floor((picture.width - cut) / 2), Math.floor((picture.height - cut) / 2)];
  return resizePicture(picture, { left, top, right: left + cut, bottom: top + cut }, side, "bicubic");
}

// The whole picture at side × side, in as many channels as a model of objects has, as `akorn segment` takes it.
export function asWhole(picture, side, channels) {
  const { width, height } = picture;
  const planes = channels === 1 ? [grey(picture.planes)] : picture.planes;
  return resizePicture({ width, height, planes }, { left: 0, top: 0, right: width, bottom: height }, side, "bilinear");
}

// Rec. 601 in whole numbers, as in Pillow.
function grey([red, green, blue]) {
  return red.map((value, i) => (19595 * value + 38470 * green[i] + 7471 * blue[i] + 0x8000) >> 16);
}

// Planes of bytes → numbers from 0 to 1, one plane after another.
export function asFloats(planes) {
  const values = new Float32Array(planes.length * planes[0].length);
  planes.forEach((plane, k) => values.set(Float32Array.from(plane, (value) => value / 255), k * plane.length));
  return values;
}

// Draw planes (one for grey, three for colours) on a canvas of their size.
export function paintPlanes(canvas, planes, side) {
  canvas.width = canvas.height = side;
  const picture = new ImageData(side, side);
  for (let i = 0; i < side * side; i++) {
    for (let k = 0; k < 3; k++) picture.data[4 * i + k] = planes[k % planes.length][i];
    picture.data[4 * i + 3] = 255;
  }
  canvas.getContext("2d").putImageData(picture, 0, 0);
}

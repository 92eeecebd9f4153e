// Fetching large files, with reports of the progress.

// tell(words, share): share is from 0 to 1, or null if the size is not known, as for compressed files.
export async function fetchWhole(url, what, tell) {
  const answer = await fetch(url);
  if (!answer.ok) throw new Error(`${what} could not be fetched (status ${answer.status}).`);
  const size = answer.headers.get("Content-Encoding") ? 0 : Number(answer.headers.get("Content-Length"));
  const parts = [];
  let got = 0;
  for (const reader = answer.body.getReader(); ; ) {
    const { done, value } = await reader.read();
    if (done) break;
    parts.push(value);
    got += value.length;
    const of = size ? ` of ${(size / 1e6).toFixed(1)}` : "";
    tell(`Fetching ${what.toLowerCase()}: ${(got / 1e6).toFixed(1)}${of} MB.`, size ? got / size : null);
  }
  const whole = new Uint8Array(got);
  let at = 0;
  for (const part of parts) {
    whole.set(part, at);
    at += part.length;
  }
  return whole;
}

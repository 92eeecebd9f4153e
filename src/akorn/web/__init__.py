"""A page to play with in the browser: its files are in `static/`, and `akorn web` serves them. No torch here.

- server.py: the files over HTTP, on this machine, without requests to any other host
- content.py: what the page consists of
- written.py: the same as static files in a folder, for other web servers
- webgpu.py: the runtime's build for WebGPU, if a user adds it
- exported.py: models as ONNX files, made from the weights that ship when the page first asks
- static/sudoku/: the page's part that solves boards: grid, Worker and pictures
- static/field/: the page's part that runs a field of oscillators
- static/pictures/: the page's part that classifies pictures and finds objects in them
- static/vendor/: onnxruntime-web, as on npm
"""

// Many rectangles at once: WebGL2, one instance a rectangle; a plain canvas where there is no WebGL.

const VERTEX = `#version 300 es
layout(location=0) in vec4 rect;
layout(location=1) in vec4 color;
uniform vec2 size;
flat out vec4 tint;
void main() {
  vec2 corner = vec2(gl_VertexID & 1, gl_VertexID >> 1);
  vec2 at = (rect.xy + corner * rect.zw) / size * 2.0 - 1.0;
  gl_Position = vec4(at.x, -at.y, 0, 1);
  tint = color;
}`;

const FRAGMENT = `#version 300 es
precision mediump float;
flat in vec4 tint;
out vec4 color;
void main() {
  float stripe = mod(gl_FragCoord.x + gl_FragCoord.y, 8.0) < 4.0 ? 0.45 : 1.0;
  color = vec4(tint.rgb, 1) * (tint.a < 0.75 ? stripe : 1.0);
}`;

/** Bytes of an instance: four floats and a colour. */
const STRIDE = 20;

/** Draws rectangles in the pixels of CSS. */
export class Rects {
  private readonly gl: WebGL2RenderingContext | null;
  private readonly plain: CanvasRenderingContext2D | null = null;
  private data = new ArrayBuffer(STRIDE * 4096);
  private floats = new Float32Array(this.data);
  private words = new Uint32Array(this.data);
  private count = 0;
  private uniform: WebGLUniformLocation | null = null;
  private width = 0;
  private height = 0;

  constructor(private readonly canvas: HTMLCanvasElement) {
    this.gl = canvas.getContext("webgl2", { alpha: true, antialias: false, depth: false, preserveDrawingBuffer: true });
    if (this.gl) {
      this.prepare(this.gl);
      canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
      canvas.addEventListener("webglcontextrestored", () => {
        if (this.gl) this.prepare(this.gl);
        this.draw();
      });
    } else {
      this.plain = canvas.getContext("2d");
    }
  }

  /** Begins a picture of so many pixels of CSS. */
  begin(width: number, height: number): void {
    const ratio = window.devicePixelRatio || 1;
    const [w, h] = [Math.max(1, Math.round(width * ratio)), Math.max(1, Math.round(height * ratio))];
    if (this.canvas.width !== w || this.canvas.height !== h) {
      this.canvas.width = w;
      this.canvas.height = h;
    }
    this.width = width;
    this.height = height;
    this.count = 0;
  }

  /** Adds a rectangle; a striped one stands for memory that waits. Colours are 0xRRGGBB. */
  add(x: number, y: number, w: number, h: number, color: number, striped = false): void {
    if (this.count * STRIDE === this.data.byteLength) this.grow();
    const at = this.count * (STRIDE / 4);
    this.floats[at] = x;
    this.floats[at + 1] = y;
    this.floats[at + 2] = w;
    this.floats[at + 3] = h;
    const swapped = ((color & 0xff) << 16) | (color & 0xff00) | (color >> 16);
    this.words[at + 4] = (swapped | ((striped ? 0x80 : 0xff) << 24)) >>> 0;
    this.count++;
  }

  /** Shows what was added. */
  draw(): void {
    if (!this.gl) return this.drawPlain();
    const gl = this.gl;
    gl.viewport(0, 0, this.canvas.width, this.canvas.height);
    gl.clearColor(0, 0, 0, 0);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.uniform, this.width, this.height);
    gl.bufferData(gl.ARRAY_BUFFER, new Uint8Array(this.data, 0, this.count * STRIDE), gl.STREAM_DRAW);
    gl.drawArraysInstanced(gl.TRIANGLE_STRIP, 0, 4, this.count);
  }

  private grow(): void {
    const data = new ArrayBuffer(this.data.byteLength * 2);
    new Uint8Array(data).set(new Uint8Array(this.data));
    this.data = data;
    this.floats = new Float32Array(data);
    this.words = new Uint32Array(data);
  }

  private prepare(gl: WebGL2RenderingContext): void {
    const program = gl.createProgram();
    for (const [kind, source] of [[gl.VERTEX_SHADER, VERTEX], [gl.FRAGMENT_SHADER, FRAGMENT]] as const) {
      const shader = gl.createShader(kind);
      if (!shader) return;
      gl.shaderSource(shader, source);
      gl.compileShader(shader);
      gl.attachShader(program, shader);
    }
    gl.linkProgram(program);
    gl.useProgram(program);
    this.uniform = gl.getUniformLocation(program, "size");
    gl.bindBuffer(gl.ARRAY_BUFFER, gl.createBuffer());
    gl.enableVertexAttribArray(0);
    gl.vertexAttribPointer(0, 4, gl.FLOAT, false, STRIDE, 0);
    gl.vertexAttribDivisor(0, 1);
    gl.enableVertexAttribArray(1);
    gl.vertexAttribPointer(1, 4, gl.UNSIGNED_BYTE, true, STRIDE, 16);
    gl.vertexAttribDivisor(1, 1);
  }

  private drawPlain(): void {
    const context = this.plain;
    if (!context) return;
    const ratio = window.devicePixelRatio || 1;
    context.setTransform(ratio, 0, 0, ratio, 0, 0);
    context.clearRect(0, 0, this.width, this.height);
    for (let at = 0; at < this.count * 5; at += 5) {
      const word = this.words[at + 4];
      context.globalAlpha = word >>> 24 < 0xc0 ? 0.6 : 1;
      context.fillStyle = `rgb(${word & 0xff} ${(word >> 8) & 0xff} ${(word >> 16) & 0xff})`;
      context.fillRect(this.floats[at], this.floats[at + 1], this.floats[at + 2], this.floats[at + 3]);
    }
    context.globalAlpha = 1;
  }
}

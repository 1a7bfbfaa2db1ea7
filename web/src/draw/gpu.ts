// Many rectangles by WebGL2, one instance each.

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

/** The names under which browsers imitate a graphics processor. */
const IMITATED = /swiftshader|llvmpipe|softpipe|basic render|software/i;

/** A canvas that a graphics processor draws on. */
export class Gpu {
  private data = new ArrayBuffer(STRIDE * 4096);
  private floats = new Float32Array(this.data);
  private words = new Uint32Array(this.data);
  private count = 0;
  private uniform: WebGLUniformLocation | null = null;
  private again: () => void = () => {};

  private constructor(private readonly canvas: HTMLCanvasElement, private readonly gl: WebGL2RenderingContext) {
    this.prepare();
    canvas.addEventListener("webglcontextlost", (event) => event.preventDefault());
    canvas.addEventListener("webglcontextrestored", () => {
      this.prepare();
      this.again();
    });
  }

  /** None where the browser has no WebGL2, or has to imitate it. */
  static on(canvas: HTMLCanvasElement): Gpu | undefined {
    if (isImitated()) return undefined;
    const gl = canvas.getContext("webgl2", { alpha: false, antialias: false, depth: false });
    return gl ? new Gpu(canvas, gl) : undefined;
  }

  /** Begins anew. */
  begin(): void {
    this.count = 0;
  }

  /** Adds a rectangle in the pixels of CSS. */
  add(x: number, y: number, w: number, h: number, color: number, striped: boolean): void {
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

  /** Shows what was added on a ground of one colour. */
  draw(width: number, height: number, ground: number): void {
    const { gl, canvas } = this;
    this.again = () => this.draw(width, height, ground);
    gl.viewport(0, 0, canvas.width, canvas.height);
    gl.clearColor((ground >> 16) / 255, ((ground >> 8) & 0xff) / 255, (ground & 0xff) / 255, 1);
    gl.clear(gl.COLOR_BUFFER_BIT);
    gl.uniform2f(this.uniform, width, height);
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

  private prepare(): void {
    const { gl } = this;
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
}

let imitated: boolean | undefined;

/** Asks once, of a context that is given back: browsers have few of them. */
function isImitated(): boolean {
  if (imitated !== undefined) return imitated;
  const gl = document.createElement("canvas").getContext("webgl2", { failIfMajorPerformanceCaveat: true });
  if (!gl) return (imitated = true);
  const known = gl.getExtension("WEBGL_debug_renderer_info");
  imitated = IMITATED.test(String(gl.getParameter(known ? known.UNMASKED_RENDERER_WEBGL : gl.RENDERER)));
  gl.getExtension("WEBGL_lose_context")?.loseContext();
  return imitated;
}

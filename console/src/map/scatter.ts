import { type Size, toScreen, type View } from './view.ts'

/** Draws points. A colour has four bytes per point; alpha 0 hides the point. */
export interface Scatter {
  setPositions(positions: Float32Array<ArrayBuffer>): void
  setColours(colours: Uint8Array<ArrayBuffer>): void
  draw(view: View, size: Size, pointPx: number): void
  close(): void
}

/** Uses WebGL 2 if the browser has it, and a plain canvas otherwise. */
export function createScatter(canvas: HTMLCanvasElement): Scatter {
  const gl = canvas.getContext('webgl2', { antialias: false, alpha: true, premultipliedAlpha: false })
  return gl === null ? plainScatter(canvas) : webglScatter(canvas, gl)
}

const vertexShader = `#version 300 es
in vec2 place;
in vec4 colour;
uniform vec2 middle;
uniform vec2 unit;
uniform float size;
out vec4 tint;
void main() {
  vec2 at = (place - middle) * unit;
  gl_Position = vec4(at.x, -at.y, 0.0, 1.0);
  gl_PointSize = colour.a == 0.0 ? 0.0 : size;
  tint = colour;
}`

const fragmentShader = `#version 300 es
precision mediump float;
in vec4 tint;
out vec4 shown;
void main() {
  float distance = length(gl_PointCoord - 0.5) * 2.0;
  float edge = 1.0 - smoothstep(0.75, 1.0, distance);
  if (edge == 0.0) discard;
  shown = vec4(tint.rgb, tint.a * edge);
}`

function webglScatter(canvas: HTMLCanvasElement, gl: WebGL2RenderingContext): Scatter {
  const program = gl.createProgram()
  for (const [type, source] of [
    [gl.VERTEX_SHADER, vertexShader],
    [gl.FRAGMENT_SHADER, fragmentShader],
  ] as const) {
    const shader = gl.createShader(type)!
    gl.shaderSource(shader, source)
    gl.compileShader(shader)
    gl.attachShader(program, shader)
  }
  gl.linkProgram(program)
  gl.useProgram(program)
  gl.enable(gl.BLEND)
  gl.blendFuncSeparate(gl.SRC_ALPHA, gl.ONE_MINUS_SRC_ALPHA, gl.ONE, gl.ONE_MINUS_SRC_ALPHA)
  const places = attribute('place', 2, gl.FLOAT, false)
  const colours = attribute('colour', 4, gl.UNSIGNED_BYTE, true)
  const uniform = (name: string): WebGLUniformLocation | null => gl.getUniformLocation(program, name)
  const [middle, unit, pointSize] = [uniform('middle'), uniform('unit'), uniform('size')]
  let count = 0
  return {
    setPositions(positions) {
      count = positions.length / 2
      fill(places, positions)
    },
    setColours: (bytes) => fill(colours, bytes),
    draw(view, size, pointPx) {
      const scale = fitCanvas(canvas, size)
      gl.viewport(0, 0, canvas.width, canvas.height)
      gl.clearColor(0, 0, 0, 0)
      gl.clear(gl.COLOR_BUFFER_BIT)
      gl.uniform2f(middle, view.x, view.y)
      gl.uniform2f(unit, (2 * view.scale) / size.width, (2 * view.scale) / size.height)
      gl.uniform1f(pointSize, pointPx * scale)
      gl.drawArrays(gl.POINTS, 0, count)
    },
    close: () => gl.getExtension('WEBGL_lose_context')?.loseContext(),
  }

  function attribute(name: string, size: number, type: number, normalized: boolean): WebGLBuffer {
    const buffer = gl.createBuffer()
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer)
    const location = gl.getAttribLocation(program, name)
    gl.enableVertexAttribArray(location)
    gl.vertexAttribPointer(location, size, type, normalized, 0, 0)
    return buffer
  }

  function fill(buffer: WebGLBuffer, bytes: BufferSource): void {
    gl.bindBuffer(gl.ARRAY_BUFFER, buffer)
    gl.bufferData(gl.ARRAY_BUFFER, bytes, gl.DYNAMIC_DRAW)
  }
}

function plainScatter(canvas: HTMLCanvasElement): Scatter {
  const context = canvas.getContext('2d')!
  let places = new Float32Array()
  let bytes = new Uint8Array()
  return {
    setPositions(positions) {
      places = positions
    },
    setColours(colours) {
      bytes = colours
    },
    draw(view, size, pointPx) {
      const scale = fitCanvas(canvas, size)
      context.setTransform(scale, 0, 0, scale, 0, 0)
      context.clearRect(0, 0, size.width, size.height)
      for (let point = 0; point < places.length / 2; point++) {
        const alpha = bytes[point * 4 + 3]!
        if (alpha === 0) continue
        const [x, y] = toScreen(view, size, places[point * 2]!, places[point * 2 + 1]!)
        if (x < -pointPx || y < -pointPx || x > size.width + pointPx || y > size.height + pointPx) continue
        const [red, green, blue] = bytes.subarray(point * 4, point * 4 + 3)
        context.fillStyle = `rgba(${red},${green},${blue},${alpha / 255})`
        context.fillRect(x - pointPx / 2, y - pointPx / 2, pointPx, pointPx)
      }
    },
    close: () => {},
  }
}

/** Sizes the canvas in device pixels. @returns the device pixels per CSS pixel */
export function fitCanvas(canvas: HTMLCanvasElement, { width, height }: Size): number {
  const scale = devicePixelRatio
  const [wide, high] = [Math.round(width * scale), Math.round(height * scale)]
  if (canvas.width !== wide || canvas.height !== high) {
    canvas.width = wide
    canvas.height = high
  }
  return scale
}

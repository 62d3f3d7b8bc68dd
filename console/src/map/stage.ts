import { groupPlaces } from './group-places.ts'
import { createScatter, fitCanvas, type Scatter } from './scatter.ts'
import {
  type Bounds,
  boundsOf,
  fit,
  type Place,
  pointAt,
  pointsInside,
  type Size,
  toPlane,
  toScreen,
  type View,
  zoomAt,
} from './view.ts'

export interface StageEvents {
  /** -1 if no point is near the pointer. */
  hover(point: number): void
  choose(point: number): void
  /** The points inside a drawn line. */
  select(points: readonly number[]): void
}

/** The distance within which the pointer finds a point. */
const reachPx = 10
const maxLabels = 60
const labelWidthPx = 150
const labelHeightPx = 18
/** The width of a point, as a share of the space that it would have if all points were spread evenly. */
const pointShare = 0.28
/** Beyond this zoom, only one point is left to see. */
const maxZoom = 500
/** All points in view are labelled if there are at most this many. */
const maxLabelledPoints = 400

/** The groups of points, by number. */
export interface Groups {
  /** By point, the number of its group; -1 for none. */
  readonly groupOf: Int16Array
  readonly names: readonly string[]
}

const noGroups: Groups = { groupOf: new Int16Array(), names: [] }

/** The two canvases of the map, and their pointer events. The lower canvas shows points, the upper labels and lines. */
export class Stage {
  readonly #scatter: Scatter
  readonly #overlay: HTMLCanvasElement
  readonly #points: HTMLCanvasElement
  readonly #events: StageEvents
  readonly #stop = new AbortController()
  readonly #observer: ResizeObserver
  #positions = new Float32Array()
  #bounds: Bounds = boundsOf(new Float32Array())
  #labels: (point: number) => string = () => ''
  #groups: Groups = noGroups
  /** By group, the place of its name. */
  #groupPlaces: readonly (Place | undefined)[] = []
  #marked: readonly number[] = []
  #hovered = -1
  #view: View = { x: 0, y: 0, scale: 1 }
  #isMoved = false
  #isLasso = false
  #line: Place[] = []
  #pressed: Place | undefined
  #dragged: Place | undefined
  #frame = 0

  constructor(points: HTMLCanvasElement, overlay: HTMLCanvasElement, events: StageEvents) {
    this.#points = points
    this.#overlay = overlay
    this.#events = events
    this.#scatter = createScatter(points)
    this.#observer = new ResizeObserver(() => {
      if (!this.#isMoved) this.showAll()
      this.#redraw()
    })
    this.#observer.observe(overlay)
    this.#listen()
  }

  setPositions(positions: Float32Array<ArrayBuffer>): void {
    this.#positions = positions
    this.#bounds = boundsOf(positions)
    this.#placeGroups()
    this.#scatter.setPositions(positions)
    if (this.#isMoved) this.#redraw()
    else this.showAll()
  }

  setColours(colours: Uint8Array<ArrayBuffer>): void {
    this.#scatter.setColours(colours)
    this.#redraw()
  }

  setLabels(labels: (point: number) => string): void {
    this.#labels = labels
    this.#redraw()
  }

  /** Sets the groups. Their names are shown while there are too many points to label each. */
  setGroups(groups: Groups): void {
    this.#groups = groups
    this.#placeGroups()
    this.#redraw()
  }

  /** Sets the points that get a ring. */
  setMarked(points: readonly number[]): void {
    this.#marked = points
    this.#redraw()
  }

  /** Sets whether dragging draws a line around points instead of moving the picture. */
  setLasso(isLasso: boolean): void {
    this.#isLasso = isLasso
  }

  showAll(): void {
    this.#isMoved = false
    this.#view = fit(this.#bounds, this.#size)
    this.#redraw()
  }

  zoom(factor: number): void {
    const { width, height } = this.#size
    this.#move(zoomAt(this.#view, this.#size, [width / 2, height / 2], factor))
  }

  close(): void {
    this.#stop.abort()
    this.#observer.disconnect()
    cancelAnimationFrame(this.#frame)
    this.#scatter.close()
  }

  get #size(): Size {
    return { width: Math.max(1, this.#points.clientWidth), height: Math.max(1, this.#points.clientHeight) }
  }

  #move(view: View): void {
    if (view.scale > fit(this.#bounds, this.#size).scale * maxZoom) return
    this.#isMoved = true
    this.#view = view
    this.#redraw()
  }

  #redraw(): void {
    cancelAnimationFrame(this.#frame)
    this.#frame = requestAnimationFrame(() => this.#draw())
  }

  #draw(): void {
    const size = this.#size
    // Draw points larger when there is more space, or when the user has zoomed in.
    const roomPx = Math.sqrt((size.width * size.height) / (this.#positions.length / 2 + 1))
    const zoomed = this.#view.scale / fit(this.#bounds, size).scale
    const pointPx = Math.min(14, Math.max(2.5, roomPx * pointShare * zoomed ** 0.3))
    this.#scatter.draw(this.#view, size, pointPx)
    this.#drawOverlay(size, pointPx)
  }

  #drawOverlay(size: Size, pointPx: number): void {
    const context = this.#overlay.getContext('2d')!
    const scale = fitCanvas(this.#overlay, size)
    const style = getComputedStyle(this.#overlay)
    context.setTransform(scale, 0, 0, scale, 0, 0)
    context.clearRect(0, 0, size.width, size.height)
    context.font = `12px ${style.fontFamily}`
    context.fillStyle = style.getPropertyValue('--text')
    context.strokeStyle = style.getPropertyValue('--text')
    context.lineWidth = 1.5
    for (const point of [...this.#marked, ...(this.#hovered < 0 ? [] : [this.#hovered])]) {
      const [x, y] = this.#screenOf(point, size)
      context.beginPath()
      context.arc(x, y, pointPx / 2 + 3, 0, 2 * Math.PI)
      context.stroke()
    }
    this.#drawLabels(context, size, pointPx, style.getPropertyValue('--surface'))
    if (this.#line.length > 1) this.#drawLine(context, size)
  }

  #drawLabels(context: CanvasRenderingContext2D, size: Size, pointPx: number, ground: string): void {
    const taken: Place[] = []
    context.strokeStyle = ground
    context.lineWidth = 3
    const { points, hasAll } = this.#labelled(size)
    if (!hasAll) this.#drawGroups(context, size)
    for (const point of points) {
      const [x, y] = this.#screenOf(point, size)
      const isFree = taken.every(
        ([left, top]) => Math.abs(left - x) > labelWidthPx || Math.abs(top - y) > labelHeightPx,
      )
      if (!isFree) continue
      taken.push([x, y])
      const label = this.#labels(point)
      context.strokeText(label, x + pointPx / 2 + 4, y + 4)
      context.fillText(label, x + pointPx / 2 + 4, y + 4)
      if (taken.length === maxLabels) return
    }
  }

  #drawGroups(context: CanvasRenderingContext2D, size: Size): void {
    context.save()
    context.font = `600 13px ${getComputedStyle(this.#overlay).fontFamily}`
    context.textAlign = 'center'
    context.lineWidth = 4
    for (const [group, place] of this.#groupPlaces.entries()) {
      if (place === undefined) continue
      const [x, y] = toScreen(this.#view, size, ...place)
      context.strokeText(this.#groups.names[group]!, x, y)
      context.fillText(this.#groups.names[group]!, x, y)
    }
    context.restore()
  }

  #placeGroups(): void {
    const { groupOf, names } = this.#groups
    // Positions and groups are set one after the other, so for a moment they may belong to different samples.
    const isSameSample = groupOf.length * 2 === this.#positions.length
    this.#groupPlaces = isSameSample ? groupPlaces(this.#positions, groupOf, names.length) : []
  }

  /** The points to label: the hovered and marked ones, and all points in view if these are few. */
  #labelled(size: Size): { readonly points: readonly number[]; readonly hasAll: boolean } {
    const [left, top] = toPlane(this.#view, size, [0, 0])
    const [right, bottom] = toPlane(this.#view, size, [size.width, size.height])
    const shown: number[] = []
    for (let point = 0; point < this.#positions.length / 2 && shown.length <= maxLabelledPoints; point++) {
      const x = this.#positions[point * 2]!
      const y = this.#positions[point * 2 + 1]!
      if (x > left && x < right && y > top && y < bottom) shown.push(point)
    }
    const first = [...(this.#hovered < 0 ? [] : [this.#hovered]), ...this.#marked]
    const hasAll = shown.length <= maxLabelledPoints
    return { points: hasAll ? [...new Set([...first, ...shown])] : first, hasAll }
  }

  #drawLine(context: CanvasRenderingContext2D, size: Size): void {
    context.beginPath()
    for (const [x, y] of this.#line) context.lineTo(...toScreen(this.#view, size, x, y))
    context.closePath()
    context.strokeStyle = getComputedStyle(this.#overlay).getPropertyValue('--accent')
    context.lineWidth = 1.5
    context.setLineDash([5, 4])
    context.stroke()
    context.setLineDash([])
  }

  #screenOf(point: number, size: Size): Place {
    return toScreen(this.#view, size, this.#positions[point * 2]!, this.#positions[point * 2 + 1]!)
  }

  #listen(): void {
    const { signal } = this.#stop
    const target = this.#overlay
    target.addEventListener('pointerdown', (event) => this.#press(event), { signal })
    target.addEventListener('pointermove', (event) => this.#drag(event), { signal })
    target.addEventListener('pointerup', (event) => this.#release(event), { signal })
    target.addEventListener('pointercancel', () => this.#cancel(), { signal })
    target.addEventListener('pointerleave', () => this.#hover(-1), { signal })
    target.addEventListener(
      'wheel',
      (event) => {
        event.preventDefault()
        const place: Place = [event.offsetX, event.offsetY]
        this.#move(zoomAt(this.#view, this.#size, place, Math.exp(-event.deltaY / 400)))
        this.#hover(this.#near(place))
      },
      { signal, passive: false },
    )
  }

  #press(event: PointerEvent): void {
    if (event.button !== 0) return
    this.#overlay.setPointerCapture(event.pointerId)
    const place: Place = [event.offsetX, event.offsetY]
    this.#pressed = place
    if (this.#isLasso || event.shiftKey) this.#line = [toPlane(this.#view, this.#size, place)]
    else this.#dragged = place
  }

  #drag(event: PointerEvent): void {
    const place: Place = [event.offsetX, event.offsetY]
    if (this.#line.length > 0) {
      this.#line.push(toPlane(this.#view, this.#size, place))
      this.#redraw()
    } else if (this.#dragged !== undefined) {
      const [x, y] = this.#dragged
      const { scale } = this.#view
      this.#dragged = place
      this.#move({
        x: this.#view.x - (place[0] - x) / scale,
        y: this.#view.y - (place[1] - y) / scale,
        scale,
      })
    } else this.#hover(this.#near(place))
  }

  #release(event: PointerEvent): void {
    const line = this.#line
    const wasMoved = this.#dragged !== undefined && this.#travelled(event)
    this.#cancel()
    if (line.length > 2) this.#events.select(pointsInside(this.#positions, line))
    else if (!wasMoved) this.#events.choose(this.#near([event.offsetX, event.offsetY]))
  }

  /** Whether the pointer has moved since it was pressed. */
  #travelled({ offsetX, offsetY }: PointerEvent): boolean {
    return (
      this.#pressed !== undefined && Math.hypot(offsetX - this.#pressed[0], offsetY - this.#pressed[1]) > 3
    )
  }

  #cancel(): void {
    this.#line = []
    this.#dragged = undefined
    this.#redraw()
  }

  #near(place: Place): number {
    return pointAt(this.#positions, toPlane(this.#view, this.#size, place), reachPx / this.#view.scale)
  }

  #hover(point: number): void {
    if (point === this.#hovered) return
    this.#hovered = point
    this.#overlay.classList.toggle('over-point', point >= 0)
    this.#events.hover(point)
    this.#redraw()
  }
}

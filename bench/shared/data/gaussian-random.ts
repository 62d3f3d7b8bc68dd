/** Seeded, normally distributed random numbers. Every machine generates the same data. */
export class GaussianRandom {
  #state: number
  #spare: number | undefined

  /** @param row mixed into the seed, so that a row does not depend on the number and order of generated rows */
  constructor(seed: number, row = 0) {
    this.#state = mix(mix(seed >>> 0) ^ mix(Math.imul(row + 1, 0x9e3779b1) >>> 0))
  }

  /** Uniform in [0, 1): mulberry32. */
  uniform(): number {
    this.#state = (this.#state + 0x6d2b79f5) >>> 0
    return mix(this.#state) / 4_294_967_296
  }

  /** Mean 0, variance 1: the polar form of the Box-Muller method, which generates two numbers at a time. */
  next(): number {
    if (this.#spare !== undefined) {
      const spare = this.#spare
      this.#spare = undefined
      return spare
    }
    for (;;) {
      const x = 2 * this.uniform() - 1
      const y = 2 * this.uniform() - 1
      const square = x * x + y * y
      if (square > 0 && square < 1) {
        const scale = Math.sqrt((-2 * Math.log(square)) / square)
        this.#spare = y * scale
        return x * scale
      }
    }
  }

  fill(values: Float64Array, scale: number): Float64Array {
    for (let index = 0; index < values.length; index += 1) values[index] = this.next() * scale
    return values
  }
}

function mix(value: number): number {
  let mixed = Math.imul(value ^ (value >>> 15), value | 1)
  mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
  return (mixed ^ (mixed >>> 14)) >>> 0
}

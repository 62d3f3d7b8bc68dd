import { attributeLimits, DateTime, type Scalar } from '../base/attributes.ts'
import type { Bounds, Filter, Ordered, Test } from '../base/filter.ts'
import { ByteDictionary } from './byte-dictionary.ts'
import {
  AllNode,
  AnyNode,
  FieldNode,
  type FilterNode,
  type FilterSource,
  GroupNode,
  IdsNode,
  matchCosts,
  NotNode,
  PartitionsNode,
  WordsNode,
} from './filter-nodes.ts'
import { boxTest, type GeoTest, nearTest, SamePoints } from './geo-field.ts'
import { MemoryCount } from './memory-count.ts'
import { NumberCounts } from './number-table.ts'
import type { Fields } from './path-tree.ts'
import {
  boundsTest,
  type NumberTest,
  numberRange,
  numbersTest,
  OneOfTexts,
  SameText,
  TextPrefix,
  TextRange,
  type TextTest,
} from './value-tests.ts'

/** A filter prepared for many tests. It stays valid when points change. */
export interface PreparedFilter {
  readonly node: FilterNode
  /** Memory that the filter's values use. */
  readonly memoryBytes: number
}

/** Prepares a filter, in steps because it can have a million values. */
export function* prepareFilter(source: FilterSource, filter: Filter): Generator<void, PreparedFilter> {
  const memory = new MemoryCount()
  const node = yield* new Preparation(source, memory).node(filter)
  return { node, memoryBytes: memory.bytes }
}

class Preparation {
  readonly #source: FilterSource
  readonly #memory: MemoryCount

  constructor(source: FilterSource, memory: MemoryCount) {
    this.#source = source
    this.#memory = memory
  }

  *node(filter: Filter): Generator<void, FilterNode> {
    this.#memory.add(nodeBytes)
    switch (filter.kind) {
      case 'all':
        return new AllNode(this.#source, yield* this.#nodes(filter.of))
      case 'any':
        return new AnyNode(this.#source, yield* this.#nodes(filter.of))
      case 'not':
        return new NotNode(this.#source, yield* this.node(filter.of))
      case 'ids':
        this.#memory.add(filter.ids.length)
        return new IdsNode(this.#source, filter.ids)
      case 'partitions':
        return new PartitionsNode(this.#source, filter.partitions)
      case 'condition':
        return yield* this.#condition(filter.path, filter.test)
    }
  }

  *#nodes(filters: readonly Filter[]): Generator<void, FilterNode[]> {
    const nodes: FilterNode[] = []
    for (const filter of filters) {
      nodes.push(yield* this.node(filter))
      yield
    }
    return nodes
  }

  *#condition(path: string, test: Test): Generator<void, FilterNode> {
    switch (test.op) {
      case 'in':
        return yield* this.#oneOf(path, test.values)
      case 'contains':
        return yield* this.#containsAll(path, test.values)
      case 'range':
        return this.#range(path, test.bounds)
      case 'exists':
        return this.#exists(path)
      case 'prefix':
        return this.#text(path, new TextPrefix(test.text))
      case 'match':
      case 'phrase':
        yield* this.#source.words.prepareMatching(test.text)
        return new WordsNode(this.#source, path, test.op, test.text)
      case 'near':
        return this.#geo(path, nearTest(test.center, test.radiusM))
      case 'box':
        return this.#geo(path, boxTest(test.southWest, test.northEast))
    }
  }

  *#oneOf(path: string, values: readonly Scalar[]): Generator<void, FilterNode> {
    if (values.length === 1) return this.#same(path, values[0]!)
    const texts = new OneOfTexts(this.#memory)
    const [numbers, dates] = [new NumberCounts(this.#memory), new NumberCounts(this.#memory)]
    const booleans = new Set<boolean>()
    const points = new SamePoints()
    for (const [index, value] of values.entries()) {
      if (typeof value === 'string') texts.texts.add(Buffer.from(value))
      else if (typeof value === 'number') numbers.add(value + 0)
      else if (typeof value === 'boolean') booleans.add(value)
      else if (value instanceof DateTime) dates.add(value.us)
      else points.add(value)
      if (index % valuesPerStep === valuesPerStep - 1) yield
    }
    this.#memory.add(points.count * geoPointBytes)
    const nodes: FilterNode[] = []
    if (texts.texts.count === 1) nodes.push(this.#text(path, new SameText(texts.texts.read(0).slice())))
    if (texts.texts.count > 1) nodes.push(this.#text(path, texts))
    if (numbers.size > 0) nodes.push(this.#number(path, numbersTest(numbers)))
    if (dates.size > 0) nodes.push(this.#date(path, numbersTest(dates)))
    for (const value of booleans) nodes.push(this.#boolean(path, value))
    if (points.count > 0) nodes.push(this.#geo(path, points))
    return nodes.length === 1 ? nodes[0]! : new AnyNode(this.#source, nodes)
  }

  #same(path: string, value: Scalar): FilterNode {
    if (typeof value === 'string') return this.#text(path, new SameText(Buffer.from(value)))
    if (typeof value === 'number') return this.#number(path, numberRange(value, value))
    if (typeof value === 'boolean') return this.#boolean(path, value)
    if (value instanceof DateTime) return this.#date(path, numberRange(value.us, value.us))
    const point = new SamePoints()
    point.add(value)
    return this.#geo(path, point)
  }

  *#containsAll(path: string, values: readonly Scalar[]): Generator<void, FilterNode> {
    const different = new Map<string | number | boolean, Scalar>()
    for (const [index, value] of values.entries()) {
      different.set(keyOf(value), value)
      // A value takes at least two bytes of JSON, so no point can have this many.
      if (different.size > attributeLimits.bytes / 2) return new AnyNode(this.#source, [])
      if (index % valuesPerStep === valuesPerStep - 1) yield
    }
    const nodes: FilterNode[] = []
    for (const value of different.values()) {
      this.#memory.add(nodeBytes)
      nodes.push(this.#same(path, value))
      if (nodes.length % valuesPerStep === 0) yield
    }
    return new AllNode(this.#source, nodes)
  }

  #range(path: string, bounds: Bounds): FilterNode {
    const { gt, gte, lt, lte } = bounds
    const given = gt ?? gte ?? lt ?? lte
    if (given === undefined) return new AnyNode(this.#source, [])
    if (typeof given === 'string') {
      return this.#text(
        path,
        new TextRange({ gt: textOf(gt), gte: textOf(gte), lt: textOf(lt), lte: textOf(lte) }),
      )
    }
    const test = boundsTest({ gt: numberOf(gt), gte: numberOf(gte), lt: numberOf(lt), lte: numberOf(lte) })
    return given instanceof DateTime ? this.#date(path, test) : this.#number(path, test)
  }

  #exists(path: string): FilterNode {
    const { tree, live, expiries } = this.#source
    if (path === '$content_type' || path === '$version') return new GroupNode(() => live)
    if (path === '$expires_at') return new FieldNode(() => expiries, boundsTest({}), matchCosts.number)
    return new GroupNode(() => tree.find(path)?.present)
  }

  #text(path: string, test: TextTest): FilterNode {
    if (path === '$content_type') return this.#contentType(test)
    return new FieldNode(this.#field(path, 'text'), test, matchCosts.text)
  }

  #contentType(test: TextTest): FilterNode {
    const { live, images } = this.#source
    const image = new GroupNode(() => images)
    const areImagesWanted = acceptsText(test, 'Image')
    if (areImagesWanted !== acceptsText(test, 'Text')) {
      return areImagesWanted ? image : new NotNode(this.#source, image)
    }
    return areImagesWanted ? new GroupNode(() => live) : new AnyNode(this.#source, [])
  }

  #number(path: string, test: NumberTest): FilterNode {
    const field = path === '$version' ? () => this.#source.versions : this.#field(path, 'number')
    return new FieldNode(field, test, matchCosts.number)
  }

  #date(path: string, test: NumberTest): FilterNode {
    const field = path === '$expires_at' ? () => this.#source.expiries : this.#field(path, 'date')
    return new FieldNode(field, test, matchCosts.number)
  }

  #boolean(path: string, value: boolean): FilterNode {
    const field = this.#field(path, 'boolean')
    return new GroupNode(() => (value ? field()?.yes : field()?.no))
  }

  #geo(path: string, test: GeoTest): FilterNode {
    return new FieldNode(this.#field(path, 'geo'), test, matchCosts.geo)
  }

  /** Returns a function that looks up a field, which is created and removed with its slots. */
  #field<Type extends keyof Fields>(path: string, type: Type): () => Fields[Type] | undefined {
    return () => this.#source.tree.find(path)?.fields[type]
  }
}

/** The same for equal values only. */
function keyOf(value: Scalar): string | number | boolean {
  if (typeof value === 'string') return `text ${value}`
  if (typeof value !== 'object') return value
  return value instanceof DateTime ? `date ${value.us}` : `place ${value.lat} ${value.lon}`
}

function acceptsText(test: TextTest, text: string): boolean {
  const dictionary = new ByteDictionary(new MemoryCount())
  return test.accepts(dictionary, dictionary.add(Buffer.from(text)))
}

function textOf(bound: Ordered | undefined): string | undefined {
  return typeof bound === 'string' ? bound : undefined
}

function numberOf(bound: Ordered | undefined): number | undefined {
  if (bound instanceof DateTime) return bound.us
  return typeof bound === 'number' ? bound : undefined
}

const valuesPerStep = 1024
/** Size of the objects as V8 allocates them. */
const nodeBytes = 300
const geoPointBytes = 200

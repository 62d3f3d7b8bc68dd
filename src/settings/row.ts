/**
 * What the table says about a setting. `kinds.ts` has a function for each kind of value. The names follow from the
 * field: `hnswEf` is the variable HNSW_EF and the flag --hnsw-ef.
 */
export interface Row<Value> {
  readonly default: Value
  /** How help and docs show the default, if its value alone is not clear. */
  readonly defaultText?: string
  /** What a value looks like in help: `<placeholder>`. */
  readonly placeholder: string
  readonly doc: string
  readonly secret?: boolean
  /** @throws Error that says what is allowed */
  readonly parse: (text: string) => Value
}

/** A row with its names. */
export interface Setting<Value> extends Row<Value> {
  readonly env: string
  /** The command-line flag without its dashes; flags win over the environment. */
  readonly flag: string
  /** The title of its group. */
  readonly group: string
}

/** The default of a setting as help and docs print it. */
export function defaultText(row: Pick<Row<unknown>, 'default' | 'defaultText'>): string {
  return row.defaultText ?? (row.default === undefined ? 'none' : String(row.default))
}

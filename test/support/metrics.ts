/** A figure of what `/metrics` gave, by its name with its labels; undefined for one that is not known yet. */
export function figureIn(text: string, name: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return line === undefined ? undefined : Number(line.slice(name.length + 1))
}

/** The same of a service at an address; 0 for what has not been counted yet. */
export async function figureOf({ httpUrl }: { readonly httpUrl: string }, name: string): Promise<number> {
  return figureIn(await (await fetch(`${httpUrl}/metrics`)).text(), name) ?? 0
}

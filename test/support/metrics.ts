/** The value of a metric in the text of `/metrics`, by its name with labels; undefined if it is absent. */
export function figureIn(text: string, name: string): number | undefined {
  const line = text.split('\n').find((each) => each.startsWith(`${name} `))
  return line === undefined ? undefined : Number(line.slice(name.length + 1))
}

/** The value of a metric of the service at an address; 0 if it has not been counted yet. */
export async function figureOf({ httpUrl }: { readonly httpUrl: string }, name: string): Promise<number> {
  return figureIn(await (await fetch(`${httpUrl}/metrics`)).text(), name) ?? 0
}

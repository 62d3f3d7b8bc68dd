/** Images that cannot run anything: the browser loads them as images only, and from nowhere else. */
const imageData = /^data:image\/(?:png|jpeg|gif|webp|avif|svg\+xml)[;,]/

/** What a content is, if an image can be shown for it: data of its own, or an address at an allowed origin. */
export function imageSourceOf(content: string, allowedOrigins: readonly string[]): string | undefined {
  if (imageData.test(content)) return content
  if (!/^https?:\/\//i.test(content) || !URL.canParse(content)) return undefined
  const { href, origin } = new URL(content)
  return allowedOrigins.includes(origin) ? href : undefined
}

/** The origin of a content that is an address. */
export function webOriginOf(content: string): string | undefined {
  return /^https?:\/\//i.test(content) && URL.canParse(content) ? new URL(content).origin : undefined
}

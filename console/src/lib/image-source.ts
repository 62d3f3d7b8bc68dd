/** Image data is safe to show: in an `img` element, it cannot run scripts or load other resources. */
const imageData = /^data:image\/(?:png|jpeg|gif|webp|avif|svg\+xml)[;,]/

/** The source of the image for a content: its own data, or an address at an allowed origin; otherwise undefined. */
export function imageSourceOf(content: string, allowedOrigins: readonly string[]): string | undefined {
  if (imageData.test(content)) return content
  if (!/^https?:\/\//i.test(content) || !URL.canParse(content)) return undefined
  const { href, origin } = new URL(content)
  return allowedOrigins.includes(origin) ? href : undefined
}

/** The origin of a content that is an http(s) address. */
export function webOriginOf(content: string): string | undefined {
  return /^https?:\/\//i.test(content) && URL.canParse(content) ? new URL(content).origin : undefined
}

import { send } from './client.ts'

export interface SaveOptions {
  readonly suggestedName: string
  readonly signal: AbortSignal
}

export interface DownloadOptions extends SaveOptions {
  readonly onProgress: (receivedBytes: number) => void
}

/** What to save, and how the server names it. */
export interface Source {
  readonly body: ReadableStream<Uint8Array<ArrayBuffer>>
  readonly name?: string | undefined
}

export interface SavedFile {
  readonly name: string
  readonly content: Blob
}

/** The part of the File System Access API that writes a file as its data arrives. Not every browser has it. */
interface FilePicker {
  showSaveFilePicker?(options: { readonly suggestedName: string }): Promise<{
    readonly name: string
    createWritable(): Promise<WritableStream<Uint8Array>>
    getFile(): Promise<Blob>
  }>
}

/** Saves a response to a file. A plain link cannot do this, because it would not send the API key. */
export async function download(path: string, options: DownloadOptions): Promise<SavedFile> {
  return await saveStream(options, async () => {
    const response = await send('POST', path, { signal: options.signal })
    return { body: response.body!.pipeThrough(counting(options.onProgress)), name: nameIn(response) }
  })
}

/**
 * Saves a stream to a file. Browsers with the File System Access API write to the file while the stream is read. Others
 * first collect it in a Blob, which they keep on disk if it is large.
 *
 * @param open comes after the choice of the file, because a browser offers that only right after a click
 * @returns the saved file
 */
export async function saveStream(options: SaveOptions, open: () => Promise<Source>): Promise<SavedFile> {
  const picker = (globalThis as FilePicker).showSaveFilePicker
  const file = await picker?.call(globalThis, { suggestedName: options.suggestedName })
  const { body, name = options.suggestedName } = await open()
  if (file !== undefined) {
    await body.pipeTo(await file.createWritable(), { signal: options.signal })
    return { name: file.name, content: await file.getFile() }
  }
  const content = await new Response(body).blob()
  save(content, name)
  return { name, content }
}

function counting(
  onProgress: (bytes: number) => void,
): TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>> {
  let received = 0
  return new TransformStream({
    transform(chunk, controller) {
      received += chunk.length
      onProgress(received)
      controller.enqueue(chunk)
    },
  })
}

function nameIn(response: Response): string | undefined {
  return /filename="([^"]+)"/.exec(response.headers.get('content-disposition') ?? '')?.[1]
}

function save(blob: Blob, name: string): void {
  const link = document.createElement('a')
  link.href = URL.createObjectURL(blob)
  link.download = name
  link.click()
  // By then, the browser has started to read the Blob.
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000)
}

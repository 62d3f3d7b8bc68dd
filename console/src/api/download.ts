import { send } from './client.ts'

export interface DownloadOptions {
  readonly suggestedName: string
  readonly signal: AbortSignal
  readonly onProgress: (receivedBytes: number) => void
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

/**
 * Saves a response to a file. A plain link cannot do this, because it would not send the API key. Browsers with the
 * File System Access API write to the file while the response arrives. Others first collect it in a Blob, which they
 * keep on disk if it is large.
 *
 * @returns the saved file
 */
export async function download(path: string, options: DownloadOptions): Promise<SavedFile> {
  const picker = (globalThis as FilePicker).showSaveFilePicker
  // The picker comes before the request, because a browser opens it only right after a click.
  const file = await picker?.call(globalThis, { suggestedName: options.suggestedName })
  const response = await send('POST', path, { signal: options.signal })
  const body = response.body!.pipeThrough(counting(options.onProgress))
  if (file !== undefined) {
    await body.pipeTo(await file.createWritable(), { signal: options.signal })
    return { name: file.name, content: await file.getFile() }
  }
  const name = nameIn(response) ?? options.suggestedName
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

import type { JSX } from 'preact'
import { useLayoutEffect, useRef } from 'preact/hooks'
import type { OpenEditor } from './code-mirror.ts'

/** A JSON editor. CodeMirror is loaded when the first editor is shown. */
export function JsonEditor(props: {
  readonly label: string
  readonly text: string
  readonly onChange: (text: string) => void
}): JSX.Element {
  const place = useRef<HTMLDivElement>(null)
  const editor = useRef<OpenEditor | undefined>(undefined)
  const current = useRef(props)
  current.current = props
  /** The text that the editor last reported. */
  const reported = useRef(props.text)
  // Its cleanup must run before CodeMirror can arrive: the editor's place is then gone.
  useLayoutEffect(() => {
    let isGone = false
    import('./code-mirror.ts').then(({ openEditor }) => {
      if (isGone) return
      editor.current = openEditor(place.current!, {
        text: current.current.text,
        label: current.current.label,
        onChange: (text) => {
          reported.current = text
          current.current.onChange(text)
        },
      })
    })
    return () => {
      isGone = true
      editor.current?.close()
    }
  }, [])
  // Before any further event: more may be typed before an effect after the next frame.
  useLayoutEffect(() => {
    if (props.text === reported.current) return
    reported.current = props.text
    editor.current?.setText(props.text)
  }, [props.text])
  return <div ref={place} class="json-editor" />
}

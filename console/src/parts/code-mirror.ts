import { defaultKeymap, history, historyKeymap } from '@codemirror/commands'
import { json, jsonParseLinter } from '@codemirror/lang-json'
import { bracketMatching, HighlightStyle, syntaxHighlighting } from '@codemirror/language'
import { linter } from '@codemirror/lint'
import { EditorState } from '@codemirror/state'
import { EditorView, keymap } from '@codemirror/view'
import { tags } from '@lezer/highlight'

export interface JsonEditorOptions {
  readonly text: string
  readonly label: string
  readonly onChange: (text: string) => void
}

export interface OpenEditor {
  text(): string
  setText(text: string): void
  close(): void
}

/**
 * Opens a JSON editor inside a shadow root. There, CodeMirror uses constructed style sheets; the content security
 * policy of the page forbids inline ones.
 */
export function openEditor(place: HTMLElement, options: JsonEditorOptions): OpenEditor {
  const root = place.shadowRoot ?? place.attachShadow({ mode: 'open' })
  const view = new EditorView({
    root,
    parent: root,
    state: EditorState.create({
      doc: options.text,
      extensions: [
        history(),
        json(),
        bracketMatching(),
        linter(faultsUnlessEmpty),
        syntaxHighlighting(colours),
        look,
        EditorView.lineWrapping,
        EditorView.contentAttributes.of({ 'aria-label': options.label }),
        // Tab is not bound: it moves the focus, as everywhere else on the page.
        keymap.of([...defaultKeymap, ...historyKeymap]),
        EditorView.updateListener.of(({ docChanged, state }) => {
          if (docChanged) options.onChange(state.doc.toString())
        }),
      ],
    }),
  })
  return {
    text: () => view.state.doc.toString(),
    setText: (text) => view.dispatch({ changes: { from: 0, to: view.state.doc.length, insert: text } }),
    close: () => view.destroy(),
  }
}

const parseFaults = jsonParseLinter()

function faultsUnlessEmpty(view: EditorView): ReturnType<typeof parseFaults> {
  return view.state.doc.toString().trim() === '' ? [] : parseFaults(view)
}

const colours = HighlightStyle.define([
  { tag: tags.propertyName, color: 'var(--accent-text)' },
  { tag: tags.string, color: 'var(--text)' },
  { tag: [tags.number, tags.bool, tags.null], color: 'var(--series-2)' },
  { tag: tags.punctuation, color: 'var(--muted)' },
])

const look = EditorView.theme({
  '&': { fontSize: '0.86rem', color: 'var(--text)', borderRadius: '7px' },
  // The box around the editor shows the focus: an outline of its own would be a second, smaller box.
  '&.cm-focused': { outline: 'none' },
  '.cm-scroller': {
    fontFamily: 'var(--mono)',
    lineHeight: '1.55',
    minHeight: 'calc(7rem - 2px)',
    maxHeight: '22rem',
    overflow: 'auto',
  },
  '.cm-content': { padding: '0.6rem 0.4rem', caretColor: 'var(--text)' },
  '.cm-selectionBackground, &.cm-focused .cm-selectionBackground': { background: 'var(--accent-soft)' },
  '.cm-tooltip': {
    background: 'var(--surface)',
    border: '1px solid var(--line-strong)',
    color: 'var(--text)',
  },
})

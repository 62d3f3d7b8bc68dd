import { useSignal } from '@preact/signals'
import type { ComponentChildren, JSX, RefObject } from 'preact'
import { useId, useLayoutEffect, useRef } from 'preact/hooks'
import { isAbort, messageOf } from '../api/client.ts'
import { Button, Fault } from './basics.tsx'
import { report } from './toast.tsx'

/** The browser's native dialog: it traps the focus, closes on Escape and then restores the focus. */
export function Dialog(props: {
  readonly title: string
  readonly wide?: boolean
  /** Slides in from the side, for the details of a list item. */
  readonly side?: boolean
  /**
   * Gets the element: for `isOpen`, and to close it after some work. Do not call `onClose` then: if this dialog was closed
   * meanwhile, it could close another one.
   */
  readonly element?: RefObject<HTMLDialogElement | null>
  readonly onClose: () => void
  readonly children: ComponentChildren
}): JSX.Element {
  const own = useRef<HTMLDialogElement>(null)
  const ref = props.element ?? own
  const id = useId()
  useLayoutEffect(() => ref.current?.showModal(), [])
  const kind = `${props.wide === true ? 'wide' : ''} ${props.side === true ? 'side' : ''}`
  return (
    <dialog
      ref={ref}
      class={kind}
      aria-labelledby={id}
      onClose={props.onClose}
      onMouseDown={(event) => {
        if (event.target === ref.current) ref.current?.close()
      }}
    >
      <div class="dialog-body">
        <div class="dialog-head">
          <h2 id={id}>{props.title}</h2>
          <Button kind="quiet" icon="close" label="Close" onClick={() => ref.current?.close()} />
        </div>
        {props.children}
      </div>
    </dialog>
  )
}

/**
 * Whether the user still sees a dialog. Its `close` event, and so `onClose`, comes some milliseconds after it closes: a
 * response that arrives before it must not start further work, nor show an error where nobody sees it.
 */
export function isOpen(element: RefObject<HTMLDialogElement | null>): boolean {
  return element.current?.open === true
}

/** A form in a dialog. It submits, shows an error (in a message if it was closed meanwhile), and closes on success. */
export function FormDialog(props: {
  readonly title: string
  readonly submit: string
  readonly kind?: 'primary' | 'danger'
  readonly wide?: boolean
  readonly canSubmit?: boolean
  readonly onSubmit: () => Promise<void>
  readonly onClose: () => void
  readonly children: ComponentChildren
}): JSX.Element {
  const busy = useSignal(false)
  const fault = useSignal<string | undefined>(undefined)
  const element = useRef<HTMLDialogElement>(null)
  const submit = async (): Promise<void> => {
    busy.value = true
    fault.value = undefined
    try {
      await props.onSubmit()
      element.current?.close()
    } catch (error) {
      if (isAbort(error)) return
      const message = messageOf(error)
      if (isOpen(element)) fault.value = message
      else report(`${props.title}: ${message}`)
    } finally {
      busy.value = false
    }
  }
  return (
    <Dialog title={props.title} wide={props.wide ?? false} element={element} onClose={props.onClose}>
      <form
        class="form"
        onSubmit={(event) => {
          event.preventDefault()
          submit()
        }}
      >
        {props.children}
        <Fault text={fault.value} />
        <div class="dialog-foot">
          <Button kind="plain" onClick={props.onClose}>
            Cancel
          </Button>
          <Button
            type="submit"
            kind={props.kind ?? 'primary'}
            disabled={busy.value || props.canSubmit === false}
          >
            {props.submit}
          </Button>
        </div>
      </form>
    </Dialog>
  )
}

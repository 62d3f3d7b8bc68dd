import { useSignal } from '@preact/signals'
import type { ComponentChildren, JSX } from 'preact'
import { useId } from 'preact/hooks'
import { Icon, type IconName } from './icon.tsx'

/** Small components that the views share. */

interface ButtonProps {
  readonly children?: ComponentChildren
  readonly icon?: IconName
  readonly kind?: 'plain' | 'primary' | 'danger' | 'quiet'
  readonly type?: 'button' | 'submit'
  readonly disabled?: boolean
  /** The accessible name of a button that shows only an icon. */
  readonly label?: string
  readonly pressed?: boolean
  readonly onClick?: () => void
}

export function Button(props: ButtonProps): JSX.Element {
  const { children, icon, kind = 'plain', type = 'button', disabled = false, label, pressed, onClick } = props
  return (
    <button
      type={type}
      class={`button ${kind}${children === undefined ? ' icon-only' : ''}`}
      disabled={disabled}
      aria-label={label}
      title={label}
      aria-pressed={pressed}
      onClick={onClick}
    >
      {icon !== undefined && <Icon name={icon} size={16} />}
      {children}
    </button>
  )
}

interface SliderProps {
  readonly label: string
  /** What the value means. */
  readonly text: string
  /** The values are from 0 to `max`. */
  readonly max: number
  readonly step: number
  readonly value: number
  readonly hint?: string
  readonly onInput: (value: number) => void
}

export function Slider({ label, text, max, step, value, hint, onInput }: SliderProps): JSX.Element {
  const id = useId()
  return (
    <div class="field">
      <div class="slider-head">
        <label for={id}>{label}</label>
        <output for={id} class="number">
          {text}
        </output>
      </div>
      <input
        id={id}
        type="range"
        min={0}
        max={max}
        step={step}
        value={value}
        aria-valuetext={text}
        onInput={({ currentTarget }) => onInput(Number(currentTarget.value))}
      />
      {hint !== undefined && <p class="hint">{hint}</p>}
    </div>
  )
}

/** A button that copies a text and confirms it briefly. */
export function CopyButton({
  text,
  label = 'Copy',
}: {
  readonly text: () => string
  readonly label?: string
}): JSX.Element {
  const copied = useSignal(false)
  const copy = async (): Promise<void> => {
    await copyText(text())
    copied.value = true
    setTimeout(() => {
      copied.value = false
    }, 1500)
  }
  return (
    <Button
      kind="quiet"
      icon={copied.value ? 'check' : 'copy'}
      label={copied.value ? 'Copied' : label}
      onClick={copy}
    />
  )
}

/** The Clipboard API exists only on https and localhost. Elsewhere, this copies the selection of a text area. */
async function copyText(text: string): Promise<void> {
  if (navigator.clipboard !== undefined) return await navigator.clipboard.writeText(text)
  const area = document.createElement('textarea')
  area.value = text
  const dialog = document.querySelector('dialog[open]')
  ;(dialog ?? document.body).append(area)
  area.select()
  document.execCommand('copy')
  area.remove()
}

export function Page(props: {
  readonly title: string
  readonly lead?: ComponentChildren
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
}): JSX.Element {
  return (
    <div class="page">
      <header class="page-head">
        <div>
          <h1 tabIndex={-1}>{props.title}</h1>
          {props.lead !== undefined && <p class="lead">{props.lead}</p>}
        </div>
        {props.actions !== undefined && <div class="actions">{props.actions}</div>}
      </header>
      {props.children}
    </div>
  )
}

export function Panel(props: {
  readonly title?: string
  readonly actions?: ComponentChildren
  readonly children: ComponentChildren
  readonly class?: string
}): JSX.Element {
  return (
    <section class={`panel ${props.class ?? ''}`}>
      {props.title !== undefined && (
        <div class="panel-head">
          <h2>{props.title}</h2>
          {props.actions !== undefined && <div class="actions">{props.actions}</div>}
        </div>
      )}
      {props.children}
    </section>
  )
}

/** A label above its control, with a hint or an error below. */
export function Field(props: {
  readonly label: string
  readonly hint?: string | undefined
  readonly fault?: string | undefined
  readonly children: (ids: { readonly id: string; readonly describedBy: string }) => JSX.Element
}): JSX.Element {
  const id = useId()
  return (
    <div class="field">
      <label for={id}>{props.label}</label>
      {props.children({ id, describedBy: `${id}-hint` })}
      <p id={`${id}-hint`} class={props.fault === undefined ? 'hint' : 'hint fault'}>
        {props.fault ?? props.hint}
      </p>
    </div>
  )
}

/** A choice between a few options: radio buttons that look like one control. */
export function Segments<T extends string>(props: {
  readonly label: string
  readonly options: readonly (readonly [T, string])[]
  readonly value: T
  readonly onChange: (value: T) => void
}): JSX.Element {
  const name = useId()
  return (
    <fieldset class="segments">
      <legend class="visually-hidden">{props.label}</legend>
      {props.options.map(([value, text]) => (
        <label key={value}>
          <input
            type="radio"
            name={name}
            value={value}
            checked={value === props.value}
            onChange={() => props.onChange(value)}
          />
          <span>{text}</span>
        </label>
      ))}
    </fieldset>
  )
}

export function Fault({ text }: { readonly text: string | undefined }): JSX.Element {
  return (
    <div role="alert">
      {text !== undefined && (
        <p class="notice fault">
          <Icon name="warning" /> {text}
        </p>
      )}
    </div>
  )
}

export function Empty(props: {
  readonly icon: IconName
  readonly title: string
  readonly children?: ComponentChildren
}): JSX.Element {
  return (
    <div class="empty">
      <Icon name={props.icon} size={28} />
      <p class="empty-title">{props.title}</p>
      {props.children}
    </div>
  )
}

/** A code block with a copy button. The copied text (`full`) may be longer than the displayed text. */
export function Code(props: {
  readonly text: string
  readonly full?: () => string
  readonly label: string
}): JSX.Element {
  return (
    <div class="code">
      <section
        class="code-text"
        // biome-ignore lint/a11y/noNoninteractiveTabindex: a scrollable region must be reachable by keyboard
        tabIndex={0}
        aria-label={props.label}
      >
        <pre>
          <code>{props.text}</code>
        </pre>
      </section>
      <CopyButton text={props.full ?? (() => props.text)} label={`Copy ${props.label}`} />
    </div>
  )
}

/**
 * For a row that opens something when it is clicked. Its links and buttons do their own work, and a click that ends a
 * selection of text only selects. Keyboards and screen readers use the button that each such row has.
 */
export function onRowClick(open: () => void): (event: MouseEvent) => void {
  return ({ target }) => {
    if ((target as Element).closest('a, button') !== null || getSelection()?.isCollapsed === false) return
    open()
  }
}

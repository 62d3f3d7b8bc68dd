import { effect, type Signal, signal } from '@preact/signals'

export const themes = ['system', 'light', 'dark'] as const
export type Theme = (typeof themes)[number]

const storedAs = 'vicinal-theme'
const darkScheme = matchMedia('(prefers-color-scheme: dark)')

function storedTheme(): Theme {
  const stored = localStorage.getItem(storedAs)
  return themes.find((each) => each === stored) ?? 'system'
}

export const theme: Signal<Theme> = signal(storedTheme())
const systemDark = signal(darkScheme.matches)
darkScheme.addEventListener('change', () => {
  systemDark.value = darkScheme.matches
})

/** Whether the dark theme is active. Charts read their colours again when it changes. */
export const isDark: Signal<boolean> = signal(false)

effect(() => {
  isDark.value = theme.value === 'dark' || (theme.value === 'system' && systemDark.value)
  document.documentElement.dataset.theme = isDark.value ? 'dark' : 'light'
  localStorage.setItem(storedAs, theme.value)
})

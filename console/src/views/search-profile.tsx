import type { JSX } from 'preact'
import type { Profile } from '../api/types.ts'
import { formatCount, formatMs } from '../lib/format.ts'
import { profileWords } from '../lib/profile-words.ts'

/** How the server answered a search, in words and in figures. */
export function ProfilePanel({ profile }: { readonly profile: Profile }): JSX.Element {
  const { plan, reason: _reason, ...figures } = profile
  return (
    <details class="profile">
      <summary>
        How it was answered: <strong>{plan}</strong>
      </summary>
      <ul class="profile-words">
        {profileWords(profile).map((sentence) => (
          <li key={sentence}>{sentence}</li>
        ))}
      </ul>
      <dl class="facts">
        {Object.entries(figures).map(([name, value]) => (
          <div key={name}>
            <dt>{name.replace(/_us$/, '').replaceAll('_', ' ')}</dt>
            <dd class="number">{figureText(name, value)}</dd>
          </div>
        ))}
      </dl>
    </details>
  )
}

function figureText(name: string, value: string | number | undefined): string {
  if (typeof value !== 'number') return value ?? ''
  if (name.endsWith('_us')) return formatMs(value / 1000)
  return Number.isInteger(value) ? formatCount(value) : String(Number(value.toPrecision(4)))
}

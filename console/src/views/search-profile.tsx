import type { JSX } from 'preact'
import type { Profile } from '../api/types.ts'
import { formatCount, formatMs, plural } from '../lib/format.ts'
import { profileWords } from '../lib/profile-words.ts'

/** How the server answered a search, in words and in figures. */
export function ProfilePanel({ profile }: { readonly profile: Profile }): JSX.Element {
  const { plan, reason: _reason, steps = [], ...figures } = profile
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
      {steps.length > 0 && (
        <ol class="profile-steps">
          {steps.map(({ step, points, us }, index) => (
            <li key={`${index} ${step}`}>
              {step}{' '}
              <span class="muted number">
                {plural(points, 'point')}, {formatMs(us / 1000)}
              </span>
            </li>
          ))}
        </ol>
      )}
    </details>
  )
}

function figureText(name: string, value: Profile[string]): string {
  if (typeof value !== 'number') return String(value ?? '')
  if (name.endsWith('_us')) return formatMs(value / 1000)
  return Number.isInteger(value) ? formatCount(value) : String(Number(value.toPrecision(4)))
}

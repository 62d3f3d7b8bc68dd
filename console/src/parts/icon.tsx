import type { JSX } from 'preact'

/** Line icons on a 24-unit grid. An icon font would be one more file to load, and most of it unused. */
const paths = {
  overview: 'M4 13h6V4H4zM14 20h6v-9h-6zM4 20h6v-3H4zM14 7h6V4h-6z',
  relevance: 'M4 19V5M4 19h16M8 15l3-4 3 2 5-7',
  search: 'M11 18a7 7 0 1 0 0-14 7 7 0 0 0 0 14zM20 20l-4-4',
  points: 'M5 6h.01M5 12h.01M5 18h.01M9 6h11M9 12h11M9 18h11',
  import: 'M12 4v10M8 10.5l4 4 4-4M4 19h16',
  collections: 'M12 3 3.5 7.5 12 12l8.5-4.5zM3.5 12 12 16.5 20.5 12M3.5 16.5 12 21l8.5-4.5',
  snapshots: 'M4 8h3l1.5-2.5h7L17 8h3v11H4zM12 16.5a3.2 3.2 0 1 0 0-6.4 3.2 3.2 0 0 0 0 6.4z',
  settings: 'M4 7h9M17 7h3M4 17h3M11 17h9M15 9.5v-5M9 19.5v-5',
  cluster:
    'M12 8.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM5.500 20.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM18.500 20.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM10.700 8.200l-4 7.600M13.300 8.200l4 7.600M8 18h8',
  requests: 'M4 5h16v14H4zM7.500 9.500l3 2.500-3 2.500M12.500 15h4',
  api: 'M8 8l-4 4 4 4M16 8l4 4-4 4M13.5 5l-3 14',
  map: 'M7 9.500a2 2 0 1 0 0-4 2 2 0 0 0 0 4zM16.500 8a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3zM17 18.500a2.500 2.500 0 1 0 0-5 2.500 2.500 0 0 0 0 5zM8 18.500a1.500 1.500 0 1 0 0-3 1.500 1.500 0 0 0 0 3z',
  copy: 'M9 9h10v11H9zM15 9V5H5v10h4',
  check: 'M5 12.5l4.5 4.5L19 7.5',
  close: 'M6 6l12 12M18 6 6 18',
  plus: 'M12 5v14M5 12h14',
  minus: 'M5 12h14',
  fit: 'M4 9V4h5M15 4h5v5M20 15v5h-5M9 20H4v-5',
  lasso:
    'M12 4c5 0 8.500 2.200 8.500 5.500S17 15 12 15c-1.500 0-3-.200-4.200-.600M12 4C7 4 3.500 6.200 3.500 9.500c0 2.200 1.700 4 4.300 4.900M7.800 14.400a2.300 2.300 0 1 0-2 3.900c.500 1 .500 1.700 0 2.700',
  menu: 'M4 7h16M4 12h16M4 17h16',
  trash: 'M5 7h14M10 7V4.5h4V7M7 7l1 13h8l1-13',
  edit: 'M5 19h3.5L19 8.500 15.500 5 5 15.500z',
  download: 'M12 4v10M8 10.500l4 4 4-4M5 19h14',
  similar:
    'M9.500 15a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11zM14.500 20a5.500 5.500 0 1 0 0-11 5.500 5.500 0 0 0 0 11z',
  external: 'M14 5h5v5M19 5l-8 8M17 14v5H5V7h5',
  shuffle: 'M4 7h3l9 10h4M17 14l3 3-3 3M4 17h3l2.500-2.800M13.500 9.800 16 7h4M17 4l3 3-3 3',
  image: 'M4 5h16v14H4zM4 16l5-5 4 4 2.500-2.500L20 17M15.500 9.500h.01',
  warning: 'M12 4 2.500 20h19zM12 10v4.500M12 17.500h.01',
  chevron: 'M9 6l6 6-6 6',
  pause: 'M9 6v12M15 6v12',
  play: 'M8 5.500v13l10-6.500z',
  filter: 'M4 6h16l-6 7v6l-4-2v-4z',
} as const

export type IconName = keyof typeof paths

export function Icon({ name, size = 18 }: { readonly name: IconName; readonly size?: number }): JSX.Element {
  return (
    <svg class="icon" width={size} height={size} viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={paths[name]} />
    </svg>
  )
}

import { useSignal } from '@preact/signals'
import type { JSX } from 'preact'
import { useEffect, useMemo } from 'preact/hooks'
import type { JsonObject, Point } from '../api/types.ts'
import { isEmptyFilter, parseFilter, testedPaths } from '../lib/filters.ts'
import { formatCount, plural, shortId } from '../lib/format.ts'
import { Button, Empty, Fault, onRowClick, Page, Panel } from '../parts/basics.tsx'
import { FilterBar, NoMatch, useKnownTypes } from '../parts/filter-bar.tsx'
import { Icon } from '../parts/icon.tsx'
import { AttributeTags, PointContent } from '../parts/point-content.tsx'
import { PointDialog } from '../parts/point-dialog.tsx'
import { useUnmount } from '../parts/use-unmount.ts'
import { currentCollection, loadCollections } from '../state/collections.ts'
import { PointList } from '../state/point-list.ts'
import { collectionName, hrefOf, replaceParams, route } from '../state/route.ts'
import { BulkDialog } from './points-bulk.tsx'
import { ExportDialog } from './points-export.tsx'
import { FacetsPanel } from './points-facets.tsx'
import { InsertDialog } from './points-insert.tsx'

type Open = 'insert' | 'update' | 'delete' | 'export'

export function Points(): JSX.Element {
  const open = useSignal<Open | undefined>(undefined)
  const list = useMemo(() => new PointList(collectionName.value), [])
  const { params } = route.value
  const filterText = params.get('filter') ?? ''
  const parsed = parseFilter(filterText)
  const filter = 'filter' in parsed ? parsed.filter : {}
  const shown = params.get('id') ?? undefined
  const refresh = (): void => {
    loadCollections()
    // A bulk change calls this after its dialog was closed, so the filter may be another one now.
    list.reload()
  }
  useEffect(() => {
    list.load(filter)
  }, [filterText])
  useUnmount(() => list.stop())
  const close = (): void => {
    open.value = undefined
  }
  const show = (id: string | undefined): void => replaceParams({ id })
  const insert = (
    <Button
      kind="primary"
      icon="plus"
      onClick={() => {
        open.value = 'insert'
      }}
    >
      Insert point
    </Button>
  )
  return (
    <Page
      title="Points"
      lead={
        <>
          {currentCollection.value === undefined
            ? ''
            : `${plural(currentCollection.value.points, 'point')} in `}
          <strong>{collectionName.value}</strong>
        </>
      }
      actions={insert}
    >
      <Listing
        list={list}
        filter={filter}
        onFilter={(next) => replaceParams({ filter: isEmptyFilter(next) ? undefined : JSON.stringify(next) })}
        onShow={show}
        onOpen={(chosen) => {
          open.value = chosen
        }}
      />
      {shown !== undefined && (
        <PointDialog
          collection={collectionName.value}
          id={shown}
          onChange={refresh}
          onClose={() => show(undefined)}
        />
      )}
      {open.value === 'insert' && <InsertDialog onInserted={refresh} onClose={close} />}
      {open.value === 'export' && (
        <ExportDialog filter={filter} count={list.count.value ?? 0} onClose={close} />
      )}
      {(open.value === 'update' || open.value === 'delete') && (
        <BulkDialog kind={open.value} filter={filter} onChanged={refresh} onClose={close} />
      )}
    </Page>
  )
}

function Listing(props: {
  readonly list: PointList
  readonly filter: JsonObject
  readonly onFilter: (filter: JsonObject) => void
  readonly onShow: (id: string) => void
  readonly onOpen: (chosen: Open) => void
}): JSX.Element {
  const { list, filter } = props
  const points = list.points.value
  const payloads = useMemo(() => (points ?? []).map(({ payload }) => payload), [points])
  const types = useKnownTypes(payloads)
  const isAll = isEmptyFilter(filter)
  return (
    <>
      <FilterBar filter={filter} types={types} onChange={props.onFilter} />
      <Fault text={list.fault.value} />
      <div class="points-layout">
        <FacetsPanel
          filter={filter}
          paths={[...types.keys()]}
          onChoose={(path, value) => props.onFilter({ ...filter, [path]: value })}
        />
        <div class="points-main">
          <div class="results-head">
            <p role="status">
              {list.count.value !== undefined && <strong>{countText(list.count.value, !isAll)}</strong>}
            </p>
            <div class="actions">
              <Button
                icon="download"
                disabled={list.count.value === 0}
                onClick={() => props.onOpen('export')}
              >
                {isAll ? 'Export all' : 'Export matching'}
              </Button>
              <Button icon="edit" disabled={list.count.value === 0} onClick={() => props.onOpen('update')}>
                {isAll ? 'Update all' : 'Update matching'}
              </Button>
              <Button
                kind="danger"
                icon="trash"
                disabled={list.count.value === 0}
                onClick={() => props.onOpen('delete')}
              >
                {isAll ? 'Delete all' : 'Delete matching'}
              </Button>
            </div>
          </div>
          {points?.length === 0 && isAll && (
            <Panel>
              <Empty icon="points" title="No points yet.">
                <a href={hrefOf('import')}>Import points</a>
              </Empty>
            </Panel>
          )}
          {points?.length === 0 && !isAll && <NoMatch onClear={() => props.onFilter({})} />}
          {points !== undefined && points.length > 0 && (
            <ul class="point-list" aria-label="Points in insertion order">
              {points.map((point) => (
                <PointRow key={point.id} point={point} filter={filter} onShow={props.onShow} />
              ))}
            </ul>
          )}
          {list.hasMore.value && (
            <div class="more">
              <Button disabled={list.busy.value} onClick={() => list.more()}>
                Show more
              </Button>
              <span class="muted">{formatCount(points?.length ?? 0)} shown</span>
            </div>
          )}
        </div>
      </div>
    </>
  )
}

function countText(count: number, isFiltered: boolean): string {
  const text = plural(count, 'point')
  return isFiltered ? `${text} ${count === 1 ? 'matches' : 'match'}` : text
}

function PointRow(props: {
  readonly point: Point
  readonly filter: JsonObject
  readonly onShow: (id: string) => void
}): JSX.Element {
  const { id, payload } = props.point
  return (
    // biome-ignore lint/a11y/useKeyWithClickEvents: the button with the id does the same for the keyboard
    <li class="point-row opens" onClick={onRowClick(() => props.onShow(id))}>
      <div class="result-body">
        <PointContent payload={payload} />
        <AttributeTags attributes={payload.attributes} matched={testedPaths(props.filter)} />
      </div>
      <div class="result-actions">
        <button type="button" class="link mono" title={`Open ${id}`} onClick={() => props.onShow(id)}>
          {shortId(id)}
        </button>
        <a class="button quiet" href={hrefOf('search', { by: 'id', id })}>
          <Icon name="similar" size={16} />
          Similar
        </a>
      </div>
    </li>
  )
}

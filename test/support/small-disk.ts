import { execFileSync } from 'node:child_process'
import { closeSync, mkdtempSync, openSync, rmSync, truncateSync, writeFileSync, writeSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { basename, join } from 'node:path'

/** A file system in memory that is full after `sizeBytes`. */
export class SmallDisk implements Disposable {
  readonly path: string

  private constructor(path: string) {
    this.path = path
  }

  /** Mounts a small disk; returns undefined if this process may not mount, which needs root. */
  static mount(sizeBytes: number): SmallDisk | undefined {
    const path = mkdtempSync(join(tmpdir(), 'vicinal-small-disk-'))
    try {
      execFileSync('mount', ['-t', 'tmpfs', '-o', `size=${sizeBytes}`, 'tmpfs', path], { stdio: 'ignore' })
      return new SmallDisk(path)
    } catch {
      rmSync(path, { recursive: true })
      return undefined
    }
  }

  /**
   * Mounts an ext4 file system, which becomes read-only at its first error, also while files on it are open for
   * writing. Returns undefined if this process may not mount, or where there is no ext4.
   */
  static mountExt4(sizeBytes: number): SmallDisk | undefined {
    const path = mkdtempSync(join(tmpdir(), 'vicinal-ext4-'))
    const image = `${path}.img`
    try {
      writeFileSync(image, '')
      truncateSync(image, sizeBytes)
      execFileSync('mkfs.ext4', ['-q', image], { stdio: 'ignore' })
      execFileSync('mount', ['-o', 'loop,errors=remount-ro', image, path], { stdio: 'ignore' })
      return new SmallDisk(path)
    } catch {
      rmSync(path, { recursive: true })
      return undefined
    } finally {
      // The mount keeps it.
      rmSync(image, { force: true })
    }
  }

  /** Makes an ext4 file system read-only, as an error of its device would. */
  failToReadOnly(): void {
    const source = execFileSync('findmnt', ['-n', '-o', 'SOURCE', this.path], { encoding: 'utf8' })
    writeFileSync(`/sys/fs/ext4/${basename(source.trim())}/trigger_fs_error`, '1')
  }

  /** A disk that another process has mounted. */
  static at(path: string): SmallDisk {
    return new SmallDisk(path)
  }

  /** Fills all remaining space. */
  fill(): void {
    const file = openSync(join(this.path, 'ballast'), 'w')
    const piece = Buffer.alloc(64 * 1024)
    try {
      for (;;) writeSync(file, piece)
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
    } finally {
      closeSync(file)
    }
  }

  /** Frees the space that `fill` took. */
  empty(): void {
    rmSync(join(this.path, 'ballast'), { force: true })
  }

  [Symbol.dispose](): void {
    execFileSync('umount', ['-l', this.path])
    rmSync(this.path, { recursive: true })
  }
}

/** Why a test on a small disk was not run. */
export const noSmallDisk = 'mounting a small file system needs root'

/** Fills the remaining places in the result of a search that found fewer than k points. */
export const noId = 0xffff_ffff

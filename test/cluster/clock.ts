/** Loaded into a node before it starts (`--import`): its clock is ahead of the system's by CLOCK_AHEAD_MS. */
const aheadMs = Number(process.env.CLOCK_AHEAD_MS)
const { now } = Date
Date.now = () => now() + aheadMs

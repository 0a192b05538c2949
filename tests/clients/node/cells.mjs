// What the two programs share: arguments, and a line for each cell. tests/clients/README.md says
// what they mean.
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'

export const GIVEN = 'given.read'
export const FORMS = 'given.forms'
export const TIME_MS = 1_700_000_055_500
export const TIMEOUT_MS = 20_000
export const LARGE = 900_000
export const HUGE = 5_000_000
export const ENOUGH = 100
// Key and value of the records that have one of them null or empty.
export const NULLS = [
  { key: 'null-value', value: null },
  { key: 'empty-value', value: '' },
  { key: null, value: 'null-key' },
  { key: '', value: 'empty-key' }
]

/** What the client itself cannot do. */
export class Limit extends Error {}

/** The values of a cell that produces so many records. */
export const numbered = (cell, count) => Array.from({ length: count }, (_, at) => `${cell}-${at}`)

/** Bytes, or the lack of them. */
export const text = bytes => (bytes === null || bytes === undefined ? 'null' : bytes.toString())

/** The certificate of who vouches for the broker. */
export const tls = options =>
  options.ca ? { ca: [readFileSync(options.ca, 'utf8')], servername: 'localhost' } : undefined

/** The version of a package that is installed here. */
export function version (name) {
  const require = createRequire(import.meta.url)
  const [, folder] = /^(.*node_modules[/])/.exec(require.resolve(name))
  return JSON.parse(readFileSync(`${folder}${name}/package.json`, 'utf8')).version
}

/** Runs what the arguments ask for. Each cell ends: one that does not is told of, and left. */
export async function main (run) {
  const options = {}
  for (const arg of process.argv.slice(2)) {
    const at = arg.indexOf('=')
    if (at > 0) {
      options[arg.slice(0, at)] = arg.slice(at + 1)
      continue
    }
    const begin = Date.now()
    let late
    const limit = new Promise((_, reject) => {
      const say = () => reject(new Error(`it did not end within ${TIMEOUT_MS / 1000} s`))
      late = setTimeout(say, TIMEOUT_MS)
    })
    let state = 'ok'
    let detail
    try {
      detail = await Promise.race([run(options, arg), limit])
    } catch (error) {
      state = 'no'
      detail = told(error)
    }
    clearTimeout(late)
    detail = String(detail).trim().replace(/\s+/g, ' ')
    console.log([arg, state, detail, Date.now() - begin].join('\t'))
  }
  // What a client leaves running is nobody's business any more.
  process.exit(0)
}

/** What a user sees of an error, with those that it gathers. */
export function told (error) {
  const inner = [...(error.errors ?? []), ...(error.cause ? [error.cause] : [])].map(told)
  return [...new Set([error.message || error.name, ...inner])].join('; ')
}

// The cells of the client matrix with kafkajs.
import zlib from 'node:zlib'
import * as wasm from '@platformatic/wasm-utils'
import kafkajs from 'kafkajs'
import snappy from 'kafkajs-snappy'
import { GIVEN, HUGE, LARGE, Limit, NULLS, TIME_MS, main, numbered, tls, told, version } from './cells.mjs'

const { CompressionCodecs, CompressionTypes, Kafka, logLevel } = kafkajs

// It brings gzip; the others are left to who uses it.
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async encoder => wasm.lz4Compress(encoder.buffer),
  decompress: async buffer => wasm.lz4Decompress(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async encoder => zlib.zstdCompressSync(encoder.buffer),
  decompress: async buffer => zlib.zstdDecompressSync(buffer)
})

const CODECS = {
  none: CompressionTypes.None,
  gzip: CompressionTypes.GZIP,
  snappy: CompressionTypes.Snappy,
  lz4: CompressionTypes.LZ4,
  zstd: CompressionTypes.ZSTD
}
const ACKS = { 'acks-0': 0, 'acks-1': 1, 'acks-all': -1 }

const client = (options, bootstrap = options.bootstrap, more = {}) =>
  new Kafka({
    brokers: [bootstrap],
    clientId: options.name,
    logLevel: logLevel.NOTHING,
    ssl: tls(options),
    sasl: options.user && { mechanism: 'plain', username: options.user, password: options.password },
    ...more
  })

async function send (options, suffix, messages, { bootstrap, producer = {}, ...more } = {}) {
  const sender = client(options, bootstrap).producer(producer)
  await sender.connect()
  try {
    const placed = messages.map(message => ({ partition: 0, ...message }))
    await sender.send({ topic: `${options.name}.${suffix}`, messages: placed, acks: -1, ...more })
  } finally {
    await sender.disconnect()
  }
  return ''
}

const values = (cell, count) => numbered(cell, count).map(value => ({ value }))

async function asked (options, ask) {
  const admin = client(options).admin()
  await admin.connect()
  try {
    return await ask(admin)
  } finally {
    await admin.disconnect()
  }
}

async function refused (run) {
  try {
    await run()
  } catch (error) {
    return told(error)
  }
  throw new Error('it was not refused')
}

async function group (options) {
  const consumer = client(options).consumer({ groupId: options.name })
  const crashed = new Promise((_, reject) =>
    consumer.on(consumer.events.CRASH, ({ payload }) => reject(payload.error))
  )
  await consumer.connect()
  await consumer.subscribe({ topic: GIVEN })
  try {
    await Promise.race([consumer.run({ eachMessage: async () => {} }).then(() => crashed), crashed])
  } finally {
    await consumer.disconnect()
  }
}

// Each record waits for the answer to the one before, and the one of that number must be given up.
async function oneByOne (options, cell, givenUp, more) {
  const answered = []
  const sender = client(options, options.lossy, more).producer({ idempotent: true })
  await sender.connect()
  try {
    for (const [number, value] of numbered(cell, 3).entries()) {
      const topic = `${options.name}.lost`
      try {
        await sender.send({ topic, messages: [{ partition: 0, value }], acks: -1 })
        answered.push(number)
      } catch (error) {
        if (number !== givenUp) throw error
      }
    }
  } finally {
    await sender.disconnect()
  }
  if (answered.includes(givenUp)) throw new Error('it was not given up')
  return ''
}

await main(async (options, cell) => {
  switch (cell) {
    case 'version':
      return version('kafkajs')
    case 'list': {
      const { topics } = await asked(options, admin => admin.fetchTopicMetadata())
      const topic = topics.find(topic => topic.name === GIVEN)
      return `${GIVEN}:${topic.partitions.length}`
    }
    case 'acks-0':
    case 'acks-1':
    case 'acks-all':
      return send(options, 'made', values(cell, 1), { acks: ACKS[cell] })
    case 'none':
    case 'gzip':
    case 'snappy':
    case 'lz4':
    case 'zstd':
      return send(options, 'made', values(cell, 20), { compression: CODECS[cell] })
    case 'idempotent':
      return send(options, 'made', values(cell, 20), { producer: { idempotent: true } })
    case 'headers': {
      const headers = { a: ['1', '2'], b: null, c: '' }
      const refusal = await refused(() => send(options, 'made', [{ value: 'headers', headers }]))
      throw new Limit(`it cannot write the null (${refusal}), and reads in groups only`)
    }
    case 'nulls':
      await send(options, 'made', NULLS)
      throw new Limit('it writes them, and reads in groups only')
    case 'large':
    case 'huge':
      await send(options, 'large', [{ value: 'x'.repeat(cell === 'large' ? LARGE : HUGE) }])
      throw new Limit('it writes it, and reads in groups only')
    case 'timestamp': {
      const found = await asked(options, admin => admin.fetchTopicOffsetsByTimestamp(GIVEN, TIME_MS))
      const { offset } = found.find(place => place.partition === 0)
      throw new Limit(`it finds offset ${offset}, and reads in groups only`)
    }
    case 'ends': {
      const found = await asked(options, admin => admin.fetchTopicOffsets(GIVEN))
      const { low, high } = found.find(place => place.partition === 0)
      return `${low} ${high}`
    }
    case 'group':
      return refused(() => group(options))
    case 'transaction':
      return refused(async () => {
        const producer = client(options).producer({ transactionalId: options.name })
        await producer.connect()
        await producer.transaction()
      })
    case 'lost':
    case 'lost-idempotent': {
      const producer = { idempotent: cell === 'lost-idempotent' }
      return send(options, 'lost', values(cell, 10), { bootstrap: options.lossy, producer })
    }
    case 'timed-out': {
      // It gives a record up after so many requests.
      const more = { requestTimeout: 1000, retry: { retries: 3, initialRetryTime: 50 } }
      return oneByOne(options, cell, 1, more)
    }
    case 'forgotten':
      return oneByOne(options, cell)
    default:
      throw new Limit('it reads in groups only')
  }
})

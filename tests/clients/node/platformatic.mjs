// The cells of the client matrix with @platformatic/kafka.
import { Admin, Consumer, Producer } from '@platformatic/kafka'
import { ENOUGH, FORMS, GIVEN, HUGE, LARGE, Limit, NULLS, TIME_MS, TIMEOUT_MS, main, numbered, text, tls, told, version } from './cells.mjs'

const ACKS = { 'acks-0': 0, 'acks-1': 1, 'acks-all': -1 }

const config = (options, more = {}) => ({
  clientId: options.name,
  bootstrapBrokers: [options.bootstrap],
  tls: tls(options),
  sasl: options.user && { mechanism: 'PLAIN', username: options.user, password: options.password },
  ...more
})

async function using (client, use) {
  try {
    return await use(client)
  } finally {
    // What a consumer cannot leave it was not in.
    await (client instanceof Consumer ? client.close(true) : client.close())
  }
}

const bytes = value => (value === null || value === undefined ? value : Buffer.from(value))

async function send (options, suffix, messages, more = {}, client = {}) {
  const topic = `${options.name}.${suffix}`
  const placed = messages.map(({ key, value, headers }) => ({
    topic, partition: 0, key: bytes(key), value: bytes(value), headers
  }))
  await using(new Producer(config(options, client)), producer =>
    producer.send({ messages: placed, acks: -1, ...more }))
  return ''
}

const values = (cell, count) => numbered(cell, count).map(value => ({ value }))

// Reads one partition without a group: its streams join one, and this is what is below them.
class Reader {
  constructor (consumer, topic, offset) {
    Object.assign(this, { consumer, topic, offset: BigInt(offset) })
  }

  async read (count) {
    const metadata = await this.consumer.metadata({ topics: [this.topic] })
    const { partitions } = metadata.topics.get(this.topic)
    const found = []
    const begin = Date.now()
    while (found.length < count && Date.now() - begin < TIMEOUT_MS) {
      const place = { partition: 0, currentLeaderEpoch: -1, fetchOffset: this.offset, lastFetchedEpoch: -1, partitionMaxBytes: 6_000_000 }
      const answer = await this.consumer.fetch({
        node: partitions[0].leader,
        // Before version 13 of Fetch, which Felix does not serve, a topic's name stands here.
        topics: [{ topicId: this.topic, partitions: [place] }],
        minBytes: 1,
        maxBytes: 10_000_000,
        maxWaitTime: 500
      })
      for (const batch of answer.responses.flatMap(topic => topic.partitions[0].records ?? [])) {
        for (const record of batch.records) {
          const offset = batch.firstOffset + BigInt(record.offsetDelta)
          if (offset >= this.offset && found.length < count) {
            found.push({ ...record, offset })
          }
        }
      }
      this.offset = found.length ? found.at(-1).offset + 1n : this.offset
    }
    return found
  }
}

const consumer = (options, groupId = 'unused-but-this-client-insists-on-one') =>
  new Consumer(config(options, { groupId }))

const readFrom = (options, topic, offset, count) =>
  using(consumer(options), consumer => new Reader(consumer, topic, offset).read(count))

const seen = records => records.map(({ offset, value }) => `${offset}:${text(value)}`).join(' ')

const offsetAt = (options, topic, timestamp) =>
  using(consumer(options), async consumer => {
    const asked = { topics: [topic], partitions: { [topic]: [0] }, timestamp: BigInt(timestamp) }
    return (await consumer.listOffsets(asked)).get(topic)[0]
  })

async function follow (options, cell, count) {
  const topic = `${options.name}.tail`
  const end = await offsetAt(options, topic, -1)
  return using(consumer(options), async consumer => {
    const reader = new Reader(consumer, topic, end)
    const found = []
    for (const value of numbered(cell, count)) {
      await send(options, 'tail', [{ value }])
      found.push(...await reader.read(1))
    }
    return found.map(record => text(record.value)).join(' ')
  })
}

async function sized (options, size) {
  await send(options, 'large', [{ value: 'x'.repeat(size) }])
  const topic = `${options.name}.large`
  const end = await offsetAt(options, topic, -1)
  return (await readFrom(options, topic, end - 1n, 1))[0].value.length
}

async function headers (options) {
  const [record] = await readFrom(options, FORMS, 0, 1)
  const shown = [...record.headers].map(([name, value]) => `${text(name)}=${text(value)}`).join(' ')
  // It takes a map.
  throw new Limit(`it reads ${shown} and cannot write two of one name`)
}

async function refused (run) {
  try {
    await run()
  } catch (error) {
    return told(error)
  }
  throw new Error('it was not refused')
}

// Each record waits for the answer to the one before, and the one of that number must be given up.
const oneByOne = (options, cell, givenUp, more) =>
  using(new Producer(config(options, { bootstrapBrokers: [options.lossy], idempotent: true, ...more })), async producer => {
    const answered = []
    for (const [number, value] of numbered(cell, 3).entries()) {
      const message = { topic: `${options.name}.lost`, partition: 0, value: bytes(value) }
      try {
        await producer.send({ messages: [message], acks: -1 })
        answered.push(number)
      } catch (error) {
        if (number !== givenUp) throw error
      }
    }
    if (answered.includes(givenUp)) throw new Error('it was not given up')
    return ''
  })

await main(async (options, cell) => {
  switch (cell) {
    case 'version':
      return version('@platformatic/kafka')
    case 'list': {
      const metadata = await using(new Admin(config(options)), admin => admin.metadata({ topics: [GIVEN] }))
      return `${GIVEN}:${metadata.topics.get(GIVEN).partitions.length}`
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
      return send(options, 'made', values(cell, 20), { compression: cell })
    case 'idempotent':
      return send(options, 'made', values(cell, 20), { idempotent: true })
    case 'earliest':
      return seen(await readFrom(options, GIVEN, await offsetAt(options, GIVEN, -2), 3))
    case 'offset':
      return seen(await readFrom(options, GIVEN, 40, 3))
    case 'timestamp':
      return seen(await readFrom(options, GIVEN, await offsetAt(options, GIVEN, TIME_MS), 3))
    case 'seek':
      return seen([...await readFrom(options, GIVEN, 10, 3), ...await readFrom(options, GIVEN, 90, 3)])
    case 'latest':
      return follow(options, cell, 1)
    case 'tail':
      return follow(options, cell, 3)
    case 'headers':
      return headers(options)
    case 'nulls': {
      await send(options, 'made', NULLS)
      const records = await readFrom(options, FORMS, 1, 4)
      return records.map(({ key, value }) => `${text(key)}=${text(value)}`).join(' ')
    }
    case 'large':
      return sized(options, LARGE)
    case 'huge':
      return sized(options, HUGE)
    case 'ends':
      return `${await offsetAt(options, GIVEN, -2)} ${await offsetAt(options, GIVEN, -1)}`
    case 'group':
      return refused(() => using(consumer(options, options.name), async consumer => {
        const stream = await consumer.consume({ topics: [GIVEN], mode: 'earliest' })
        for await (const message of stream) throw new Limit(`it read ${message.offset}`)
      }))
    case 'transaction':
      return refused(() => using(new Producer(config(options, { transactionalId: options.name, idempotent: true })), producer =>
        producer.beginTransaction()))
    case 'group-assign':
      return using(consumer(options, options.name), async consumer => {
        const first = await new Reader(consumer, GIVEN, 0).read(ENOUGH)
        const said = await refused(() => consumer.joinGroup())
        const second = await new Reader(consumer, GIVEN, 0).read(ENOUGH)
        return `${first.length} then ${said} then ${second.length}`
      })
    case 'lost':
    case 'lost-idempotent':
      return send(options, 'lost', values(cell, 10), { idempotent: cell === 'lost-idempotent' }, { bootstrapBrokers: [options.lossy] })
    case 'timed-out':
      // It gives a record up after so many requests.
      return oneByOne(options, cell, 1, { requestTimeout: 1000, retries: 3, retryDelay: 50 })
    case 'forgotten':
      return oneByOne(options, cell)
    default:
      throw new Limit('its program here knows no such cell')
  }
})

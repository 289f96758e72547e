// Tries the features of kafkajs: node kafkajs.cjs BOOTSTRAP PREFIX
const { CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require('kafkajs')
const snappy = require('kafkajs-snappy')
const lz4 = require('lz4-napi')
const zstd = require('@mongodb-js/zstd')
const { bootstrap, expect, topicOf, tried, values } = require('./trying.cjs')

// kafkajs has gzip; the other codecs are registered as its documentation describes.
CompressionCodecs[CompressionTypes.Snappy] = snappy
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: encoder => lz4.compressFrame(encoder.buffer),
  decompress: buffer => lz4.decompressFrame(buffer)
})
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: encoder => zstd.compress(encoder.buffer),
  decompress: buffer => zstd.decompress(buffer)
})

const kafka = new Kafka({ brokers: bootstrap, logLevel: logLevel.NOTHING })

async function send (feature, sent, { compression, ...options } = {}) {
  const producer = kafka.producer(options)
  await producer.connect()
  const messages = sent.map(value => ({ key: 'key', value, headers: { name: 'header' } }))
  await producer.send({ topic: topicOf(feature), compression, messages })
  await producer.disconnect()
}

// kafkajs reads in groups only.
async function read (feature, count, groupId) {
  const consumer = kafka.consumer({ groupId })
  await consumer.connect()
  await consumer.subscribe({ topics: [topicOf(feature)], fromBeginning: true })
  const found = []
  await new Promise((resolve, reject) => {
    consumer.on(consumer.events.CRASH, event => reject(event.payload.error))
    consumer.run({
      autoCommit: false,
      eachMessage: async ({ message }) => {
        found.push(message)
        if (found.length === count) resolve(null)
      }
    }).catch(reject)
  })
  await consumer.commitOffsets([{ topic: topicOf(feature), partition: 0, offset: String(Number(found.at(-1).offset) + 1) }])
  await consumer.disconnect()
  return found
}

async function readValues (feature, count, groupId = topicOf(`${feature}-reader`)) {
  return (await read(feature, count, groupId)).map(message => String(message.value))
}

async function records () {
  await send('records', ['value'])
  const [{ key, value, headers }] = await read('records', 1, topicOf('records-reader'))
  expect([key, value, headers.name].map(String), ['key', 'value', 'header'])
}

async function codec (feature, compression) {
  await send(feature, values, { compression })
  expect(await readValues(feature, values.length), values)
}

async function idempotence () {
  await send('idempotence', values, { idempotent: true })
  expect(await readValues('idempotence', values.length), values)
}

async function transactions () {
  const topic = topicOf('transactions')
  const producer = kafka.producer({ transactionalId: topic, idempotent: true, maxInFlightRequests: 1 })
  await producer.connect()
  for (const [value, end] of [['dropped', 'abort'], ['kept', 'commit']]) {
    const transaction = await producer.transaction()
    await transaction.send({ topic, messages: [{ value }] })
    await transaction[end]()
  }
  await producer.disconnect()
  expect(await readValues('transactions', 1), ['kept'])
}

async function groups () {
  for (const sent of [['1', '2'], ['3']]) {
    await send('groups', sent)
    expect(await readValues('groups', sent.length, topicOf('groups')), sent)
  }
}

async function administered (work) {
  const admin = kafka.admin()
  await admin.connect()
  await work(admin)
  await admin.disconnect()
}

function topics () {
  return administered(async admin => {
    await admin.createTopics({ topics: ['made', 'gone'].map(name => ({ topic: topicOf(name), numPartitions: 2 })) })
    await admin.deleteTopics({ topics: [topicOf('gone')] })
  })
}

function configs () {
  const configEntries = [{ name: 'retention.ms', value: '60000' }]
  const resources = [{ type: ConfigResourceTypes.TOPIC, name: topicOf('configs'), configEntries }]
  return administered(admin => admin.alterConfigs({ resources, validateOnly: false }))
}

tried(require('kafkajs/package.json').version, {
  records,
  gzip: () => codec('gzip', CompressionTypes.GZIP),
  snappy: () => codec('snappy', CompressionTypes.Snappy),
  lz4: () => codec('lz4', CompressionTypes.LZ4),
  zstd: () => codec('zstd', CompressionTypes.ZSTD),
  groups,
  idempotence,
  transactions,
  topics,
  configs
})

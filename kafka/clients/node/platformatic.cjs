// Tries the features of @platformatic/kafka: node platformatic.cjs BOOTSTRAP PREFIX
const { readFileSync } = require('node:fs')
const { join } = require('node:path')
const { Admin, Consumer, ConfigResourceTypes, Producer, stringDeserializers, stringSerializers } = require('@platformatic/kafka')
const { bootstrap, expect, topicOf, tried, values } = require('./trying.cjs')

const client = { clientId: 'features', bootstrapBrokers: bootstrap }

async function send (feature, sent, options = {}) {
  const producer = new Producer({ ...client, serializers: stringSerializers, ...options })
  const messages = sent.map(value => ({ topic: topicOf(feature), key: 'key', value, headers: { name: 'header' } }))
  await producer.send({ messages })
  await producer.close()
}

// It reads in groups only.
async function read (feature, count, options = {}) {
  const consumer = new Consumer({
    ...client, groupId: topicOf(`${feature}-reader`), deserializers: stringDeserializers, autocommit: false, ...options
  })
  const stream = await consumer.consume({
    topics: [topicOf(feature)], mode: 'committed', fallbackMode: 'earliest', maxWaitTime: 500, isolationLevel: 1
  })
  const found = []
  for await (const message of stream) {
    found.push(message)
    if (found.length === count) {
      await message.commit()
      break
    }
  }
  await consumer.close(true)
  return found
}

async function readValues (feature, count, options) {
  return (await read(feature, count, options)).map(message => message.value)
}

async function records () {
  await send('records', ['value'])
  const [{ key, value, headers }] = await read('records', 1)
  expect([key, value, headers.get('name')], ['key', 'value', 'header'])
}

async function codec (compression) {
  await send(compression, values, { compression })
  expect(await readValues(compression, values.length), values)
}

async function idempotence () {
  await send('idempotence', values, { idempotent: true })
  expect(await readValues('idempotence', values.length), values)
}

async function transactions () {
  const topic = topicOf('transactions')
  const producer = new Producer({ ...client, serializers: stringSerializers, idempotent: true, transactionalId: topic })
  for (const [value, end] of [['dropped', 'abort'], ['kept', 'commit']]) {
    const transaction = await producer.beginTransaction()
    await transaction.send({ messages: [{ topic, value }] })
    await transaction[end]()
  }
  await producer.close()
  expect(await readValues('transactions', 1), ['kept'])
}

async function groups (feature, groupProtocol) {
  for (const sent of [['1', '2'], ['3']]) {
    await send(feature, sent)
    expect(await readValues(feature, sent.length, { groupId: topicOf(feature), groupProtocol }), sent)
  }
}

async function administered (work) {
  const admin = new Admin(client)
  await work(admin)
  await admin.close()
}

function topics () {
  return administered(async admin => {
    await admin.createTopics({ topics: [topicOf('made'), topicOf('gone')], partitions: 2, replicas: -1 })
    await admin.deleteTopics({ topics: [topicOf('gone')] })
  })
}

function configs () {
  const wanted = [{ name: 'retention.ms', configOperation: 0, value: '60000' }]
  const resources = [{ resourceType: ConfigResourceTypes.TOPIC, resourceName: topicOf('configs'), configs: wanted }]
  return administered(admin => admin.incrementalAlterConfigs({ resources, validateOnly: false }))
}

const description = join(require.resolve('@platformatic/kafka'), '..', '..', 'package.json')
tried(JSON.parse(readFileSync(description)).version, {
  records,
  gzip: () => codec('gzip'),
  snappy: () => codec('snappy'),
  lz4: () => codec('lz4'),
  zstd: () => codec('zstd'),
  groups: () => groups('groups', 'classic'),
  'groups-848': () => groups('groups-848', 'consumer'),
  idempotence,
  transactions,
  topics,
  configs
})

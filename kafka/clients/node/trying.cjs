// What the scripts for Node.js share: they try features one after the other, and print what became of each as JSON.
const [bootstrap, prefix] = process.argv.slice(2)
const values = Array.from({ length: 10 }, (_, number) => `value ${number} `.repeat(20))

function topicOf (feature) {
  return `${prefix}-${feature}`
}

function expect (found, expected) {
  if (JSON.stringify(found) !== JSON.stringify(expected)) {
    throw new Error(`${JSON.stringify(found)} instead of ${JSON.stringify(expected)}`)
  }
}

// An attempt that takes too long has failed: a library may retry forever.
function inTime (promise) {
  return Promise.race([promise, new Promise((_, reject) => setTimeout(() => reject(new Error('timed out')), 60000).unref())])
}

async function tried (version, features) {
  const found = {}
  for (const [name, attempt] of Object.entries(features)) {
    try {
      await inTime(attempt())
      found[name] = 'ok'
    } catch (error) {
      const cause = error.errors?.[0] ?? error
      found[name] = `failed: ${cause.name}: ${cause.message}`
    }
  }
  console.log(JSON.stringify({ version, features: found }))
  process.exit(0)
}

module.exports = { bootstrap: bootstrap.split(','), values, topicOf, expect, tried }

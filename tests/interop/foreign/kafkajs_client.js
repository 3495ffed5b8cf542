// kafkajs against a broker: administration, all acks, gzip, a group of two members, offsets. Exits with 1 on any difference.
const assert = require("node:assert");
const { Kafka, CompressionTypes, logLevel } = require("kafkajs");

const [bootstrap, topic] = process.argv.slice(2);
const kafka = new Kafka({ clientId: "kafkajs", brokers: [bootstrap], logLevel: logLevel.ERROR });
const COUNT = 300;

async function produce() {
  const producer = kafka.producer({ idempotent: false });
  await producer.connect();
  for (const [acks, compression] of [[-1, CompressionTypes.None], [1, CompressionTypes.GZIP], [0, CompressionTypes.None]]) {
    const messages = Array.from({ length: COUNT / 3 }, (_, n) => ({ key: `key-${n}`, value: `${acks}/${n}`, headers: { n: `${n}` } }));
    const answer = await producer.send({ topic, acks, compression, messages });
    if (acks !== 0) assert(answer.every((part) => part.errorCode === 0));
  }
  await producer.disconnect();
}

async function produceIdempotent() {
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 1 });
  await producer.connect();
  await producer.send({ topic, messages: [{ value: "idempotent" }, { key: "tombstone", value: null }] });
  await producer.disconnect();
}

async function consume() {
  const seen = new Set();
  const members = [kafka.consumer({ groupId: topic }), kafka.consumer({ groupId: topic })];
  let finish;
  const finished = new Promise((resolve) => (finish = resolve));
  for (const member of members) {
    await member.connect();
    await member.subscribe({ topic, fromBeginning: true });
    await member.run({
      eachMessage: async ({ partition, message }) => {
        seen.add(`${partition}/${message.offset}`);
        if (seen.size === COUNT + 2) finish();
      },
    });
  }
  await finished;
  for (const member of members) await member.disconnect();
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  assert(await admin.createTopics({ waitForLeaders: true, topics: [{ topic, numPartitions: 3 }] }));
  await produce();
  await produceIdempotent();
  await consume();
  const committed = await admin.fetchOffsets({ groupId: topic, topics: [topic] });
  const total = committed[0].partitions.reduce((sum, part) => sum + Number(part.offset), 0);
  assert.strictEqual(total, COUNT + 2);
  const ends = await admin.fetchTopicOffsets(topic);
  assert.strictEqual(ends.reduce((sum, part) => sum + Number(part.high), 0), COUNT + 2);
  assert.strictEqual((await admin.describeCluster()).brokers.length, 1);
  assert((await admin.listGroups()).groups.some((group) => group.groupId === topic));
  await admin.deleteGroups([topic]);
  await admin.deleteTopics({ topics: [topic] });
  await admin.disconnect();
  console.log("OK");
}

main().catch((error) => {
  console.error(error);
  process.exit(1);
});

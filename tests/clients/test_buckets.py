#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Real programs that use a bucket: Strands' snapshots by its TypeScript SDK, Litestream, and s3rver
as a server that is not ours (make check-buckets).

They come by npm, into a folder that is theirs alone: SESSFS_BUCKETS, which stays, or a temporary
one.  Skipped where npm or a package is not to be had.
"""

import contextlib
import json
import os
import sqlite3
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.join(HERE, "..", "servers"))
sys.path.insert(0, os.path.join(HERE, "..", "mount"))
import bucket  # noqa: E402
import harness  # noqa: E402
from harness import Skip, eventually, need_tool, same, tool, write  # noqa: E402
from test_bucket import Manager, Place, make_store  # noqa: E402

PACKAGES = ["s3rver@3.7.1", "@strands-agents/sdk@1.19.0", "@aws-sdk/client-s3@3.1078.0",
            "zod@4.1.12", "@opentelemetry/api@1.9.0", "@modelcontextprotocol/sdk@1.25.2",
            "@flydotio/litestream-linux-x64@1.0.1"]

# What an agent's session manager does with a storage, and what it reads; the model is here.
AGENT = """
const [sdk, storages, aws] = await Promise.all([
  import(process.env.MODULES + '/@strands-agents/sdk/dist/src/index.js'),
  import(process.env.MODULES + '/@strands-agents/sdk/dist/src/' + process.env.STORAGE),
  import(process.env.MODULES + '/@aws-sdk/client-s3/dist-cjs/index.js')])
const s3Client = new aws.S3Client({ endpoint: process.env.AWS_ENDPOINT_URL_S3,
  region: 'us-east-1', forcePathStyle: true })
class Here extends sdk.Model {
  updateConfig() {}
  getConfig() { return { modelId: 'here' } }
  async *stream(messages) {
    yield { type: 'modelMessageStartEvent', role: 'assistant' }
    yield { type: 'modelContentBlockStartEvent' }
    yield { type: 'modelContentBlockDeltaEvent',
      delta: { type: 'textDelta', text: 'answer ' + messages.length } }
    yield { type: 'modelContentBlockStopEvent' }
    yield { type: 'modelMessageStopEvent', stopReason: 'endTurn' }
  }
}
const storage = process.env.DIR ? new storages.LocalFileStorage(process.env.DIR)
  : process.env.STORAGE.startsWith('session/')
  ? { snapshot: new storages.S3Storage({ bucket: 'b', prefix: process.env.PREFIX, s3Client }) }
  : new storages.S3Storage('b', { prefix: process.env.PREFIX, s3Client })
const sessionManager = new sdk.SessionManager({
  sessionId: process.env.SESSION ?? 'agent-1', storage,
  snapshotTrigger: () => true })
const agent = new sdk.Agent({ model: new Here(), sessionManager, printer: false })
for (const question of process.argv.slice(1)) await agent.invoke(question)
await agent.initialize?.()
console.log(JSON.stringify(agent.messages.map((m) => [m.role, m.content[0].text])))
"""


@contextlib.contextmanager
def modules():
    """Where npm has put the packages."""
    need_tool("npm")
    need_tool("node")
    with contextlib.ExitStack() as stack:
        folder = os.environ.get("SESSFS_BUCKETS") or stack.enter_context(
            tempfile.TemporaryDirectory())
        found = os.path.join(folder, "node_modules")
        if not os.path.exists(os.path.join(found, "s3rver")):
            done = tool("npm", "install", "--prefix", folder, "--no-audit", "--no-fund",
                        "--ignore-scripts", "--legacy-peer-deps", *PACKAGES, check=False)
            if done.returncode:
                raise Skip(f"npm has not installed the packages: {done.stderr[-300:]}")
        yield found


def run_agent(place, modules, storage, prefix, *questions, **more):
    env = place.environment(MODULES=modules, STORAGE=storage, PREFIX=prefix,
                            PATH=os.environ["PATH"], **more)
    done = tool("node", "--input-type=module", "-e", AGENT, "--", *questions, env=env, check=False)
    same(done.returncode, 0, done.stderr.decode()[-2000:])
    return json.loads(done.stdout.splitlines()[-1])


def test_snapshots_that_an_agent_of_strands_writes_are_files_and_its_reader_takes_ours(box):
    with modules() as found, bucket.Server() as server:
        for storage, url in (("session/s3-storage.js", "s3://b/one"),
                             ("storage/s3-storage.js", "s3://b/two")):
            place = Place(box, server, box.new_path("store.db"))
            prefix = url.rsplit("/", 1)[1]
            said = run_agent(place, found, storage, prefix, "hello", "more")
            same([role for role, _ in said], ["user", "assistant"] * 2, "a conversation")
            before = {key: data for key, data in place.objects().items() if key.startswith(prefix)}
            assert before, "it has written"
            place.take(url=url)
            files = place.files()
            same(sorted(files.values()), sorted(before.values()), "as files")
            latest = [path for path in files if path.endswith("snapshot_latest.json")]
            same(len(latest), 1, sorted(files))
            # What is changed in the file is what the agent goes on with.
            place.put(latest[0], files[latest[0]].replace(b"hello", b"goodbye"))
            same(place.counts(place.send, layout="strands-snapshots", url=url).get("replaced"), 1,
                 "the change goes there")
            same(run_agent(place, found, storage, prefix)[0], ["user", "goodbye"], "its reader")


def test_an_agent_of_strands_goes_on_with_a_fork_of_its_session(box):
    with modules() as found, bucket.Server() as server:
        mount = box.mount(options=["layout=strands"])
        place = Place(box, server, mount.store)

        def talk(session, *questions):
            return run_agent(place, found, "storage/local-file-storage.js", "x", *questions,
                             DIR=mount.path, SESSION=session)

        one = talk("conversation-a", "hello")
        place.do("fork", "--rewrite-id", mount.store, "session:conversation-a", "conversation-b")
        same(talk("conversation-b", "more")[: len(one) + 1], [*one, ["user", "more"]], "the fork")
        same(talk("conversation-a"), one, "the other one")
        mount.check()


def test_another_server_takes_sessions_and_backups_and_gives_them_back(box):
    with modules() as found, bucket.Server() as model:
        place = Place(box, model)
        port = bucket.closed_port()
        env = place.environment(AWS_ACCESS_KEY_ID="S3RVER", AWS_SECRET_ACCESS_KEY="S3RVER",
                                AWS_ENDPOINT_URL_S3=f"http://127.0.0.1:{port}")
        with subprocess.Popen(
                ["node", "--openssl-legacy-provider", f"{found}/s3rver/bin/s3rver.js", "-d",
                 box.new_folder("s3rver"), "-a", "127.0.0.1", "-p", str(port), "--configure-bucket",
                 "b"], env=dict(env, PATH=os.environ["PATH"]), stdout=subprocess.DEVNULL) as server:
            try:
                eventually(lambda: b"created" in box.sessfs(
                    "import", "--layout=strands", box.new_path("x"), "s3://b", env=env).stdout,
                    "it answers")
                objects = {}
                manager = Manager(objects)
                for number in range(60):
                    manager.session(f"s{number}", 20)
                for key, found_object in objects.items():
                    path = os.path.join(box.folder, "source", key)
                    os.makedirs(os.path.dirname(path), exist_ok=True)
                    write(path, found_object.data)
                place.do("import", place.store, os.path.join(box.folder, "source"))
                expected = place.files()
                count = len(expected)
                same(place.counts(place.send, url="s3://b/x", env=env), {"created": count}, "sent")
                same(place.counts(place.send, url="s3://b/x", env=env), {"unchanged": count},
                     "again")
                other = Place(box, model)
                same(other.counts(other.take, url="s3://b/x", env=env), {"created": count}, "back")
                same(other.files(), expected, "files")
                # Both go on, and what both have changed stays.
                at = "session_s1/agents/agent_a/messages/message_{}.json".format
                with subprocess.Popen([box.program, "import", "--watch", "--every=1s", other.store,
                                       "s3://b/x"], env=env, stdout=subprocess.PIPE) as watcher:
                    assert b"unchanged" in watcher.stdout.readline(), "its first round"
                    place.put(at(20), b'{"message_id": 20}')
                    place.put(at(1), b'{"redacted": 1}')
                    same(place.counts(place.send, url="s3://b/x", env=env),
                         {"created": 1, "replaced": 1, "unchanged": count - 1}, "sent")
                    assert b"1 created, 1 replaced" in watcher.stdout.readline(), "a round"
                    watcher.terminate()
                same(other.files(), place.files(), "files")
                place.put(at(2), b'{"here": 2}')
                other.put(at(2), b'{"other": 2}')
                place.send(url="s3://b/x", env=env)
                for run in (other.take, other.send):
                    assert at(2) in run(url="s3://b/x", env=env, status=1), "both have changed it"
                same(other.files()[at(2)], b'{"other": 2}', "it stays")
                other.put(at(2), b'{"here": 2}')
                place.do("rm", place.store, at(20))
                same(place.counts(place.send, "--delete", url="s3://b/x", env=env),
                     {"deleted": 1, "unchanged": count}, "deleted there")
                same(other.counts(other.take, "--delete", url="s3://b/x", env=env),
                     {"deleted": 1, "unchanged": count}, "and here")
                expected = place.files()
                same(other.files(), expected, "in the end")
                done = box.sessfs("backup", place.store, "s3://b/backup", env=env)
                same(done.returncode, 0, done.stderr)
                assert b"takes no notice of If-None-Match" in done.stderr, done.stderr
                third = Place(box, model)
                third.do("restore", "s3://b/backup", third.store, env=env)
                same(third.files(), expected, "the backup")
            finally:
                server.terminate()


def test_litestream_sends_a_store_while_it_is_mounted_and_restores_it(box):
    with modules() as found, bucket.Server() as server:
        program = os.path.join(found, "@flydotio", "litestream-linux-x64", "litestream")
        os.chmod(program, 0o755)
        place = Place(box, server)
        make_store(place)
        mount = box.mount(store=place.store)
        config = box.new_path("litestream.yml")
        write(config, f"""
dbs:
  - path: {place.store}
    replicas: [{{type: s3, bucket: b, path: stream, endpoint: '{server.url}',
                 force-path-style: true, sync-interval: 100ms}}]
""".encode())
        env = {"LITESTREAM_ACCESS_KEY_ID": bucket.ID,
               "LITESTREAM_SECRET_ACCESS_KEY": bucket.SECRET, **os.environ}
        with subprocess.Popen([program, "replicate", "-config", config], env=env,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT) as running:
            try:
                for number in range(20):
                    write(mount.at("s", f"d{number}.json"), b'{"n": %d}' % number)
                copy = box.new_path("restored.db")

                def restored():
                    if os.path.exists(copy):
                        os.unlink(copy)
                    done = tool(program, "restore", "-config", config, "-o", copy, place.store,
                                env=env, check=False)
                    if done.returncode:
                        return False
                    with contextlib.closing(sqlite3.connect(copy)) as base:
                        return base.execute("SELECT count(*) FROM agentscope_sessions WHERE "
                                            "state_key LIKE 'd%'").fetchone() == (20,)
                eventually(restored, "all is in the bucket")
            finally:
                running.terminate()
                said = running.communicate()[0]
            mount.stop()
            same(running.returncode in (0, -15), True, said)
        place.do("check", copy)
        same(Place(box, server, copy).files(), place.files(), "files")


if __name__ == "__main__":
    harness.main(globals())

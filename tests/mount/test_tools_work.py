#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Programs that work on a mount as people write them: git, sqlite3, and JSON by Python and Node."""

import os

import harness
from harness import same
from twin import on_both

# git

GIT = """
export GIT_CONFIG_NOSYSTEM=1 GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a
export GIT_COMMITTER_EMAIL=a@b GIT_AUTHOR_DATE=@1700000000 GIT_COMMITTER_DATE=@1700000000
git() {
    command git -c init.defaultBranch=main -c gc.auto=0 -c maintenance.auto=0 -c core.abbrev=12 \\
        -c pack.threads=1 "$@"
}
"""


@on_both("git")
def test_git_keeps_clones_packs_and_checks_a_session(twin):
    def git(script, **named):
        # The index holds the inode numbers of its files, and a log its times.
        twin.run(GIT + script + "; git status --porcelain", compare=False, **named)
        twin.run(
            "find . -name .git -prune -o -type f -print0 | sort -z | "
            "xargs -0 sha256sum; git rev-parse HEAD",
            compare=False,
        )

    git(
        "git init -q . && git add -A && git commit -q -m one && git log --oneline && "
        "git ls-files -s"
    )
    git(
        "echo '{}' >>chat.jsonl; sed -i 1d codex.jsonl; git rm -q mixed.jsonl; "
        "git mv torn.jsonl t.jsonl; git status --porcelain; git diff --stat; "
        "git commit -qam two; git checkout -q HEAD~1; git checkout -q main"
    )
    git(
        "git checkout -q -b side HEAD~1; echo '[1]' >>sub/todo.jsonl; "
        "git commit -qam side; git merge -q -m merged main; git log --oneline --graph; "
        "git stash list; echo x >>note.txt; git stash -q; git stash pop -q; "
        "git checkout -q -- note.txt"
    )
    git(
        "echo '{}' >state.json; git commit -qam conflict; git checkout -q main; "
        "echo '[]' >state.json; git commit -qam other; git merge side; cat state.json; "
        "git checkout -q --theirs state.json; git add state.json; "
        "git commit -qm resolved"
    )
    git(
        "git gc -q --aggressive --prune=now; git fsck --strict --full; "
        "git clone -q . ../clone && git -C ../clone fsck --strict; "
        "git -C ../clone status --porcelain; "
        "git clone -q --no-hardlinks --depth 1 file://$ROOT $OUT/shallow; "
        "git clone -q --bare . ../bare; "
        "git -C ../clone push -q ../bare HEAD:refs/heads/pushed; "
        "git -C ../clone pull -q ../bare pushed"
    )
    git(
        "git worktree add -q ../tree side; git -C ../tree status --porcelain; "
        "git worktree list | wc -l; git worktree remove ../tree; "
        "git bisect start -q HEAD HEAD~2; git bisect reset -q; git tag v1; "
        "git archive --format=tar HEAD | tar -tf - | cksum",
        status=0,
    )
    git(
        "git repack -q -a -d -f; git reset -q --hard HEAD~1; git clean -qfd; "
        "git apply --check <(git diff HEAD~1 HEAD) 2>/dev/null; "
        "git format-patch -q -1 -o $OUT; git reset -q --hard HEAD~1; "
        "git am -q $OUT/0001*.patch; git fsck; git reflog | wc -l",
        status=0,
    )
    # Only bytes that do not depend on the numbers of inodes and on times can be compared.
    for side in twin.sides:
        twin.play(side,
            "rm -rf .git ../clone/.git; "
            "find .. -name '*.idx' -o -name '*.pack' -o -name '*.rev' | xargs rm -f; "
            "rm -rf ../bare; touch -d @5 . ..")
    twin.compare("work trees")


# sqlite3

WRITER = """
import sqlite3, sys
base = sqlite3.connect(sys.argv[1], timeout=60)
for n in range(25):
    base.execute("INSERT INTO t (who, n) VALUES (?, ?)", (sys.argv[2], n))
    base.commit()
"""


@on_both("sqlite3", "python3")
def test_sqlite_keeps_databases_in_a_session_with_two_processes(twin):
    for mode in ("delete", "truncate", "persist", "wal"):
        base = f"{mode}.db"
        twin.run(
            f"sqlite3 {base} 'PRAGMA journal_mode = {mode}; CREATE TABLE t (who, n); "
            f"INSERT INTO t SELECT 0, value FROM json_each((SELECT "
            f"json_group_array(value) FROM generate_series(1, 300)))'",
            compare=False,
        )
        for side in twin.sides:
            script = "for who in a b; do python3 -c \"$WRITER\" $ROOT/%s $who & done; wait" % base
            same(twin.play(side, script, env={"WRITER": WRITER})[0], 0, "two writers")
        twin.run(
            f"sqlite3 {base} 'PRAGMA integrity_check; "
            f"SELECT who, count(*), sum(n) FROM t GROUP BY who ORDER BY 1; "
            f"PRAGMA journal_mode'",
            compare=False,
        )
        twin.run(
            f"sqlite3 {base} 'DELETE FROM t WHERE n % 2' 'VACUUM' '.backup copy.db'; "
            f"sqlite3 copy.db .dump | sort | cksum; sqlite3 {base} 'BEGIN IMMEDIATE; "
            f"INSERT INTO t VALUES (9, 9); ROLLBACK; PRAGMA wal_checkpoint(TRUNCATE)'; "
            f"sqlite3 -readonly {base} 'SELECT count(*) FROM t'; ls -A {base}*",
            compare=False,
        )
        # The order of two writers is in the pages of their database.
        twin.run(f"sqlite3 {base} .dump | LC_ALL=C sort | cksum; rm -f {base}* copy.db*")
    twin.run(
        "sqlite3 :memory: '.mode json' \"SELECT value->>'type' AS type, count(*) FROM "
        "json_each('[' || replace(rtrim(readfile('chat.jsonl'), char(10)), char(10), "
        "',') || ']') GROUP BY 1\" >types.json; "
        "sqlite3 :memory: \"SELECT writefile('written.json', json('[1, 2]'))\""
    )


# Python and Node: each script runs in the session; what it prints and leaves has to be the same.


def python(twin, script, **named):
    twin.run('python3 -B -c "$SCRIPT"', env={"SCRIPT": script, "PYTHONHASHSEED": "0"}, **named)


@on_both("python3")
def test_python_saves_json_the_ordinary_ways(twin):
    python(twin, """
import json, os, pathlib
state = json.load(open('state.json'))
with open('state.json', 'w') as file:
    json.dump(state, file, indent=2)
print(os.path.getsize('state.json'))
with open('new.json', 'x') as file:
    json.dump({'n': 1}, file)
with open('new.json', 'r+') as file:
    value = json.load(file)
    value['n'] += 1
    file.seek(0)
    json.dump(value, file)
    file.truncate()
    file.flush()
    os.fsync(file.fileno())
    print(os.fstat(file.fileno()).st_size)
path = pathlib.Path('path.json')
print(path.write_text(json.dumps([1, 2])))
print(path.read_text())
path.rename('sub/path.json')
pathlib.Path('sub/path.json').write_bytes(b'{}')
print(pathlib.Path('sub/path.json').stat().st_size)
pathlib.Path('touched.json').touch()
pathlib.Path('touched.json').touch(exist_ok=True)
for name in sorted(pathlib.Path('.').rglob('*.json')):
    print(name, name.stat().st_size)
pathlib.Path('draft.json').write_text('{"a": NaN}')
print(json.load(open('draft.json')))
pathlib.Path('draft.json').write_text('[1]')
pathlib.Path('touched.json').unlink()
""")
    python(twin, """
import json, os, tempfile, shutil

def save(name, value):
    how = {'dir': '.', 'prefix': name, 'suffix': '.tmp', 'delete': False}
    with tempfile.NamedTemporaryFile('w', **how) as file:
        json.dump(value, file)
        file.flush()
        os.fsync(file.fileno())
    os.chmod(file.name, 416)
    os.replace(file.name, name)
    folder = os.open('.', os.O_RDONLY | os.O_DIRECTORY)
    os.fsync(folder)
    os.close(folder)
for n in range(10):
    save('state.json', {'n': n, 'pad': 'x' * n * 1000})
print(os.stat('state.json').st_size, sorted(os.listdir('.')))
with tempfile.TemporaryDirectory(dir='.', suffix='.d') as folder:
    open(os.path.join(folder, 'k.json'), 'w').write('{}')
    shutil.move(os.path.join(folder, 'k.json'), 'moved.json')
with tempfile.TemporaryFile(dir='.') as file:
    file.write(b'abc')
    file.seek(1)
    print(file.read(), os.fstat(file.fileno()).st_nlink)
with tempfile.SpooledTemporaryFile(10, dir='.') as file:
    file.write(b'abc' * 10)
    file.seek(0)
    print(file.read())
shutil.copyfile('chat.jsonl', 'c1.jsonl')
shutil.copy2('chat.jsonl', 'c2.jsonl')
shutil.copytree('sub', 'tree')
shutil.make_archive('archive', 'zip', 'sub')
shutil.unpack_archive('archive.zip', 'unpacked')
os.unlink('archive.zip')
shutil.rmtree('tree')
print(shutil.disk_usage('.').free > 0, sorted(os.listdir('unpacked')))
""")


@on_both("python3")
def test_python_works_with_lists_line_by_line(twin):
    python(twin, """
import json, os, fileinput, itertools, mmap, fcntl, shutil
for n in range(50):
    with open('log.jsonl', 'a') as file:
        file.write(json.dumps({'n': n, 't': '会' * n}, ensure_ascii=n % 2 == 0) + '\\n')
log = open('log.jsonl', 'a', buffering=1)
print('{}', file=log)
print(os.path.getsize('log.jsonl'), log.tell())
log.close()
lines = [json.loads(line) for line in open('log.jsonl')]
print(len(lines), lines[-1])
with open('log.jsonl') as source, open('log.jsonl.new', 'w') as target:
    forty = itertools.islice(source, 40)
    target.writelines((json.dumps(json.loads(line)) + '\\n' for line in forty))
os.replace('log.jsonl.new', 'log.jsonl')
with fileinput.input('log.jsonl', inplace=True, backup='.bak') as lines:
    for line in lines:
        print(line.upper() if '"n": 3' in line else line, end='')
with open('log.jsonl', 'rb+') as file:
    file.seek(-200, os.SEEK_END)
    tail = file.read()
    file.seek(-len(tail.split(b'\\n')[-2]) - 1, os.SEEK_END)
    file.truncate()
    file.write(b'{"cut": true}\\n')
    print(file.tell())
with open('log.jsonl', 'rb') as file, mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ) as m:
    print(m.find(b'cut'), len(m))
with open('log.jsonl', 'a+') as file:
    fcntl.flock(file, fcntl.LOCK_EX)
    file.seek(0)
    count = sum((1 for _ in file))
    file.write(json.dumps(count) + '\\n')
    file.flush()
    fcntl.flock(file, fcntl.LOCK_UN)
with open('both.jsonl', 'w+') as file:
    for n in range(5):
        print(n, file=file)
    file.seek(0)
    print(file.read().split())
    file.seek(2)
    file.write('7')
    file.seek(0)
    print(list(file))
with open('log.jsonl', 'rb', buffering=0) as file:
    buffer = bytearray(100)
    print(file.readinto(buffer), os.pread(file.fileno(), 10, 5), file.seek(0, 2))
shutil.copyfileobj(open('chat.jsonl', 'rb'), open('obj.jsonl', 'wb'))
sent = os.open('sent.jsonl', os.O_CREAT | os.O_WRONLY)
print(os.sendfile(sent, os.open('chat.jsonl', os.O_RDONLY), 0, 10 ** 6))
""")
    python(twin, """
import csv, logging, logging.handlers, os, shelve, dbm.dumb, zipfile, gzip, pickle
with dbm.dumb.open('shelf') as d:
    d['a'] = b'1'
    d['b'] = b'2' * 1000
with shelve.Shelf(dbm.dumb.open('shelf2', 'c')) as s:
    s['x'] = {'y': [1, 2]}
    print(s['x'])
log = logging.getLogger('l')
handler = logging.handlers.RotatingFileHandler('rot.jsonl', maxBytes=300, backupCount=3)
handler.namer = lambda name: name.replace('.jsonl.', '-') + ('.jsonl' if '.jsonl.' in name else '')
log.addHandler(handler)
for n in range(40):
    log.warning('{"n": %d}', n)
handler.close()
log.removeHandler(handler)
watched = logging.handlers.WatchedFileHandler('watched.jsonl')
log.addHandler(watched)
log.warning('1')
os.rename('watched.jsonl', 'watched.1.jsonl')
log.warning('2')
watched.close()
with open('t.csv', 'w', newline='') as f:
    csv.writer(f).writerows([[1, 'a'], [2, 'b']])
with gzip.GzipFile('g.jsonl.gz', 'wb', mtime=0) as f:
    f.write(b'[1]\\n')
with zipfile.ZipFile('z.zip', 'a') as z:
    z.writestr(zipfile.ZipInfo('k.json'), '{}')
with zipfile.ZipFile('z.zip', 'a') as z:
    z.writestr(zipfile.ZipInfo('l.json'), '[]')
    print(z.testzip(), z.namelist())
pickle.dump({'p': 1}, open('p.pickle', 'wb'))
print(sorted(os.listdir('.')))
""")


@on_both("python3")
def test_python_processes_append_and_save_together(twin):
    python(twin, """
import json, multiprocessing, os, fcntl, collections

def append(who):
    for n in range(60):
        with open('shared.jsonl', 'a') as file:
            file.write(json.dumps({'who': who, 'n': n, 'pad': 'x' * (n * 37 % 500)}) + '\\n')

def count(who):
    for n in range(20):
        with open('count.json', 'r+') as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            value = json.load(file)
            value['n'] += 1
            file.seek(0)
            file.truncate()
            json.dump(value, file)
            file.flush()
json.dump({'n': 0}, open('count.json', 'w'))
context = multiprocessing.get_context('fork')
workers = [context.Process(target=f, args=(who,)) for who in range(3) for f in (append, count)]
[w.start() for w in workers]
[w.join() for w in workers]
print([w.exitcode for w in workers])
lines = [json.loads(line) for line in open('shared.jsonl')]
print(len(lines), json.load(open('count.json')))
order = collections.defaultdict(list)
for line in lines:
    order[line['who']].append(line['n'])
print(all((ns == sorted(ns) for ns in order.values())))
lines.sort(key=lambda l: (l['who'], l['n']))
open('shared.jsonl', 'w').writelines((json.dumps(l) + '\\n' for l in lines))
""")


def node(twin, script):
    body = "(async () => {" + script + "})().catch(e => { console.log(e); process.exit(1); });"
    head = (
        "const fs = require('fs'), fsp = fs.promises, path = require('path'), rl = "
        "require('readline');"
    )
    twin.run('node -e "$SCRIPT"', env={"SCRIPT": head + body})


@on_both("node")
def test_node_saves_and_appends_the_ordinary_ways(twin):
    node(twin, """
const state = JSON.parse(fs.readFileSync('state.json', 'utf8'));
fs.writeFileSync('state.json', JSON.stringify(state, null, 2));
console.log(fs.statSync('state.json').size);
await fsp.writeFile('new.json', '{}', {flag: 'wx'});
await fsp.writeFile('new.json', '{"n": 1}', {mode: 0o600});
await fsp.writeFile('new.json.tmp', '{"n": 2}'); await fsp.rename('new.json.tmp', 'new.json');
for (let n = 0; n < 40; n++) fs.appendFileSync('log.jsonl', JSON.stringify({n}) + '\\n');
for (let n = 0; n < 20; n++) await fsp.appendFile('log.jsonl', JSON.stringify({n,
    more: 'x'.repeat(n * 100)}) + '\\n');
console.log((await fsp.readFile('log.jsonl', 'utf8')).split('\\n').length,
    fs.existsSync('none.json'));
const out = fs.createWriteStream('stream.jsonl', {flags: 'a'});
for (let n = 0; n < 3000; n++) if (!out.write(JSON.stringify({n,
    text: '\\u4f1a'.repeat(n % 30)}) + '\\n')) await new Promise(r => out.once('drain', r));
out.end();
await new Promise(r => out.once('close', r));
console.log(fs.statSync('stream.jsonl').size);
let count = 0, sum = 0;
for await (const line of rl.createInterface({input: fs.createReadStream('stream.jsonl')})) {
    count++; sum += JSON.parse(line).n; } console.log(count, sum);
const over = fs.createWriteStream('log.jsonl');
over.write('{"a": 1}\\n');
over.write('{"b": 2}\\n');
over.end();
await new Promise(r => over.once('close', r));
console.log(fs.readFileSync('log.jsonl', 'utf8'));
const inside = fs.createWriteStream('log.jsonl', {flags: 'r+', start: 6});
inside.end('7');
await new Promise(r => inside.once('close', r));
await require('stream/promises').pipeline(fs.createReadStream('chat.jsonl',
    {highWaterMark: 1000}), fs.createWriteStream('piped.jsonl'));
await require('stream/promises').pipeline(fs.createReadStream('chat.jsonl'),
    require('zlib').createGzip(), require('zlib').createGunzip(),
    fs.createWriteStream('zipped.jsonl'));
const range = fs.createReadStream('chat.jsonl', {start: 10, end: 29, encoding: 'utf8'});
for await (const piece of range) console.log(piece);
""")
    node(twin, """
fs.copyFileSync('chat.jsonl', 'copy.jsonl');
fs.copyFileSync('chat.jsonl', 'clone.jsonl', fs.constants.COPYFILE_FICLONE);
fs.cpSync('sub', 'sub2', {recursive: true, preserveTimestamps: true});
const handle = await fsp.open('handle.jsonl', 'a+');
await handle.appendFile('[1]\\n');
await handle.write('[2]\\n');
await handle.sync();
console.log((await handle.stat()).size, (await handle.read(Buffer.alloc(4), 0, 4, 0)).bytesRead);
await handle.close();
const cut = await fsp.open('piped.json', 'w+');
await cut.writeFile('[1, 2, 3]      ');
await cut.truncate(9);
await cut.datasync();
await cut.utimes(5, 6);
await cut.chmod(0o640);
await cut.close();
console.log(fs.statSync('piped.json').mtimeMs, fs.readFileSync('piped.json', 'utf8'));
const folder = fs.mkdtempSync('./temp-');
fs.writeFileSync(path.join(folder, 'k.json'), '{}');
fs.renameSync(folder, 'kept');
fs.mkdirSync('a/b/c', {recursive: true});
fs.writeFileSync('a/b/c/k.json', '1');
fs.truncateSync('codex.jsonl', 20);
fs.utimesSync('codex.jsonl', 7, 8);
fs.chmodSync('codex.jsonl', 0o600);
fs.symlinkSync('chat.jsonl', 'link.jsonl');
console.log(fs.readlinkSync('link.jsonl'), fs.realpathSync('link.jsonl').split('/').pop());
const names = [];
for await (const entry of await fsp.opendir('.',
    {recursive: true})) names.push(entry.name + entry.isDirectory());
console.log(names.sort().join(' '));
fs.rmSync('a', {recursive: true});
fs.unlinkSync('sub2/todo.jsonl');
for (const [call, ...args] of [['openSync', 'none.json', 'r+'], ['openSync', 'state.json',
    'wx'], ['mkdirSync', 'sub'], ['rmdirSync', 'sub'], ['unlinkSync', 'none'], ['linkSync',
    'none', 'n']]) try { fs[call](...args); console.log('?'); } catch (e) { console.log(call,
    e.code); }
const writers = Array.from({length: 20}, (_, n) => fsp.appendFile('many.jsonl',
    JSON.stringify({n}) + '\\n'));
await Promise.all(writers);
fs.writeFileSync('many.jsonl', fs.readFileSync('many.jsonl',
    'utf8').split('\\n').sort().join('\\n').trim() + '\\n');
""")


@on_both("node")
def test_node_watches_a_folder_and_a_file(twin):
    node(twin, """
const seen = new Set(); const watcher = fs.watch('.', (type, name) => seen.add(name));
const until = async (condition) => { while (!condition()) await new Promise(r => setTimeout(r,
    5)); };
let sizes = []; fs.watchFile('chat.jsonl', {interval: 20}, now => sizes.push(now.size));
await new Promise(r => setTimeout(r, 60));
for (const [name, change] of [['chat.jsonl', () => fs.appendFileSync('chat.jsonl', '{}\\n')],
    ['state.json', () => fs.writeFileSync('state.json', '{}')], ['r.json', () => {
    fs.writeFileSync('t', '1'); fs.renameSync('t', 'r.json'); }], ['note.txt', () =>
    fs.unlinkSync('note.txt')]]) { change(); await until(() => seen.has(name));
    console.log('seen', name); }
await until(() => sizes.length);
console.log(sizes);
fs.writeFileSync('chat.jsonl', '[]\\n');
await until(() => sizes.includes(3));
console.log('saved');
watcher.close();
fs.unwatchFile('chat.jsonl');
""")


if __name__ == "__main__":
    harness.main(globals())

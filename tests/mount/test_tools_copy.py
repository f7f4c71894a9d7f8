#!/usr/bin/python3 -B
# SPDX-License-Identifier: MIT
"""Copying, archiving, synchronising and backing up: out of a mount, into it, and on it."""

import os

import harness
from harness import read, same, write
from twin import Twin, on_both, samples, transcripts


def many(folder):
    """Samples, real transcripts, and what copies are known to lose."""
    samples(folder)
    agents = os.path.join(folder, "agents")
    harness.tool("cp", "-a", "--no-preserve=ownership", transcripts(), agents)
    odd = os.path.join(folder, "odd")
    os.mkdir(odd)
    long_name = "long-" + "n" * 200
    write(os.path.join(odd, long_name + ".jsonl"), b"[1]\n[2]\n")
    deep = os.path.join(odd, *[f"folder-{n}-" + "d" * 60 for n in range(5)])
    os.makedirs(deep)
    write(os.path.join(deep, "k.json"), b'{"deep": true}')
    write(os.path.join(odd, "sp ace\n\u4f1a.json"), b"{}")
    write(os.path.join(odd, "hard 1"), b"linked")
    os.link(os.path.join(odd, "hard 1"), os.path.join(odd, "hard 2"))
    os.symlink("../chat.jsonl", os.path.join(odd, "link.jsonl"))
    os.symlink("nowhere", os.path.join(odd, "dangling"))
    os.mkfifo(os.path.join(odd, "fifo"))
    os.mkdir(os.path.join(odd, "empty"), 0o711)
    with open(os.path.join(odd, "sparse"), "wb") as sparse:
        sparse.truncate(1 << 20)
        sparse.seek(300_000)
        sparse.write(b"island")
    for name in ("chat.jsonl", "state.json", "note.txt", "odd/hard 1", "sub"):
        os.setxattr(os.path.join(folder, name), "user.note", name.encode())
    os.chmod(os.path.join(folder, "codex.jsonl"), 0o444)
    moment = "@1234567890.123456789"
    harness.tool("find", folder, "-depth", "-exec", "touch", "-h", "-d", moment, "{}", "+")
    for number, name in enumerate(("chat.jsonl", "state.json", "note.txt", "sub")):
        os.utime(os.path.join(folder, name), ns=(5, (1_300_000_000 + number) * 10**9 + 7))


# What a second archive or a second synchronisation must find the same, by one program for both.
SUMS = "find . -type f -print0 | sort -z | xargs -0 sha256sum"


@on_both("cp", fill=many)
def test_cp_copies_inside_out_and_in(twin):
    twin.run(
        "cp -a . ../t; cp -a . $OUT/copy; cp -a $OUT/copy ../back; "
        "diff -r --no-dereference -x fifo ../t ../back; "
        "diff -rq --no-dereference -x fifo ../t $OUT/copy"
    )
    twin.run(
        "mkdir c; cp --reflink=auto --preserve=all chat.jsonl state.json note.txt c; "
        "cp --reflink=never -r sub c; cp --sparse=always odd/sparse c; "
        "cp --sparse=never odd/sparse c/full"
    )
    twin.run("cp --reflink=always note.txt c/reflink 2>/dev/null", status=1)
    twin.run(
        "cp -u sub/todo.jsonl chat.jsonl; cp -b note.txt c; cp -n note.txt state.json; "
        "cp -T c d; cp -rL odd/link.jsonl d; cp -P odd/link.jsonl c; "
        "cp -s $ROOT/note.txt d/sym; ls -AR c d | cksum"
    )
    twin.run(
        "cp chat.jsonl chat.jsonl; cp -f chat.jsonl codex.jsonl; "
        "cp draft.json state.json; cp torn.jsonl chat.jsonl; "
        "cp sub/empty sub/todo.jsonl; cp --attributes-only -p note.txt sub/empty; "
        "cp /dev/null new.json"
    )
    twin.run(
        "cp -l note.txt c/hard; rm c/full; cp --parents sub/deep/list.jsonl c; "
        "cp --remove-destination note.txt c/note.txt; "
        "cat chat.jsonl | cp /dev/stdin c/stdin.jsonl",
        status=0,
    )
    # Copies of state files as hard links are refused, since a state file has one name.
    refused = "cp: cannot create hard link 'c/two.jsonl' to 'mixed.jsonl': Operation not permitted"
    twin.run("cp -l mixed.jsonl c/two.jsonl", status=1, plain=f'echo "{refused}" >&2; exit 1')


@on_both("rsync", fill=many)
def test_rsync_in_out_and_again_with_nothing_to_do(twin):
    twin.run(
        "rsync -aHX --specials ./ $OUT/copy; rsync -aHX --specials -i ./ $OUT/copy; "
        "mkdir ../t; rsync -aHX --specials $OUT/copy/ ../t/; "
        "rsync -aHXi --specials $OUT/copy/ ../t/; rsync -aHXci --specials ../t/ ./"
    )
    change = (
        "cd $OUT/copy; echo '{\"n\": 1}' >>chat.jsonl; sed -i 1d sub/todo.jsonl; "
        "echo '{}' >state.json; rm mixed.jsonl; mkdir new; echo 1 >new/k.json; "
        "touch -d @99 chat.jsonl sub/todo.jsonl state.json new/k.json new . sub; "
        "cd $ROOT;"
    )
    twin.run(change +
        "rsync -aHX --specials --delete -i $OUT/copy/ ./; "
        "rsync -aHXi --specials --delete $OUT/copy/ ./; ls -A")
    again = change.replace("rm mixed.jsonl; mkdir new", "true").replace("@99", "@199")
    twin.run(again +
        "rsync -aHX --specials --inplace --no-whole-file -i $OUT/copy/ ./; "
        "rsync -aXi --specials --inplace $OUT/copy/ ./")
    twin.run(
        "cd $OUT/copy; echo '[1]' >>chat.jsonl; echo '[2]' >>sub/todo.jsonl; "
        "touch -d @299 chat.jsonl sub/todo.jsonl; cd $ROOT; "
        "rsync -a --append -i $OUT/copy/chat.jsonl ./; "
        "rsync -a --append-verify -i $OUT/copy/sub/todo.jsonl sub/; "
        "rsync -ai --append-verify $OUT/copy/chat.jsonl ./"
    )
    twin.run(
        "rsync -a --backup --suffix=.old --checksum -i chat.jsonl state.json sub/; "
        "rsync -a --remove-source-files -i sub/chat.jsonl moved.jsonl; "
        "rsync -a --partial --delay-updates -i sub/ sub2/; "
        "rsync -a --existing --ignore-existing -n -i sub/ sub2/; "
        "rsync -ai --sparse odd/sparse s2; ls -AR . | cksum"
    )
    twin.run(
        "rsync -a --link-dest=../copy $OUT/copy/ $OUT/second; "
        "rsync -a --compare-dest=$OUT/copy ./chat.jsonl $OUT/third/; "
        "rsync -rlptD --files-from=<(echo chat.jsonl; echo sub/todo.jsonl) . ../list/"
    )


@on_both("rsync")
def test_rsync_with_hard_links_keeps_the_links_of_ordinary_files_only(twin):
    for side in twin.sides:
        source = os.path.join(side.out, "source")
        os.mkdir(source)
        for name in ("a.txt", "k.json", "l.jsonl"):
            write(os.path.join(source, name), b"[1]\n")
            os.link(os.path.join(source, name), os.path.join(source, "other-" + name))
    twin.run(
        "rsync -aH $OUT/source/a.txt $OUT/source/other-a.txt ./; "
        "stat -c '%n %h' a.txt other-a.txt"
    )
    # A state file has one name: rsync says so for each and ends with 23.
    status, _, errors = twin.play(twin.mounted, "rsync -aH $OUT/source/ ./")
    refused = errors.count(b"Operation not permitted")
    same((status, refused), (23, 2), f"rsync -H of links: {errors}")
    twin.run("rsync -a $OUT/source/ ./; rsync -ai $OUT/source/ ./")


@on_both("tar", "gzip", "zstd", fill=many)
def test_tar_packs_and_unpacks_in_every_format(twin):
    pack = (
        "tar --sort=name --numeric-owner --xattrs --xattrs-include='user.note' "
        "--sparse --format=posix --pax-option=delete=atime,delete=ctime"
    )
    # Times that are "now" differ: give them one.
    twin.run(pack +
        " -cf $OUT/all.tar . && tar -tf $OUT/all.tar | cksum; mkdir ../t; "
        "tar -C ../t --xattrs --xattrs-include='user.note' -xpf $OUT/all.tar; "
        "tar -df $OUT/all.tar")
    twin.run(
        "for f in gnu ustar v7 oldgnu; "
        "do tar --format=$f --exclude=odd --exclude=agents -cf $OUT/$f.tar . && "
        "mkdir ../$f && tar -C ../$f -xpf $OUT/$f.tar; diff -r ../$f/sub sub; done"
    )
    twin.run(
        "tar -czf on.tar.gz chat.jsonl state.json sub && tar -tzvf on.tar.gz | wc -l; "
        "tar -rf $OUT/all.tar note.txt; tar --zstd -cf on.tzst agents; "
        "tar -xOf on.tzst agents/codex/standard_session.jsonl | cksum; "
        "rm on.tar.gz on.tzst"
    )
    twin.run(
        "cd ../t; tar -xf $OUT/all.tar --overwrite ./chat.jsonl ./state.json; "
        "tar -xf $OUT/all.tar --unlink-first ./note.txt ./mixed.jsonl; "
        "tar -xmf $OUT/all.tar ./codex.jsonl; tar -xkf $OUT/all.tar ./torn.jsonl 2>&1",
        status=2,
    )
    twin.run(
        "tar -cf - . | (mkdir ../p && tar -C ../p -xpf -); "
        "tar --listed-incremental=$OUT/snar -cf $OUT/0.tar sub; echo 1 >sub/new.json; "
        "tar --listed-incremental=$OUT/snar -cf $OUT/1.tar sub; tar -tf $OUT/1.tar"
    )
    twin.run(
        "echo extra >sub/extra.txt; rm -r sub; tar -xpf $OUT/all.tar ./sub; "
        "tar --remove-files -cf $OUT/gone.tar agents; ls -A; "
        "tar -xf $OUT/gone.tar agents/pi"
    )


@on_both("tar")
def test_tar_with_hard_links_between_state_files_says_which_it_cannot_make(twin):
    for side in twin.sides:
        script = (
            "cd $OUT; mkdir l; cd l; echo '{}' >a.json; ln a.json b.json; echo x >c; "
            "ln c d; tar -cf ../l.tar ."
        )
        same(twin.play(side, script)[0], 0, "making the archive")
    status, _, errors = twin.play(twin.mounted, "tar -xf $OUT/l.tar")
    same((status, errors.count(b"Operation not permitted")), (2, 1), f"tar -x of links: {errors}")
    twin.play(twin.plain, "tar -xf $OUT/l.tar --exclude=./b.json; touch -r . $OUT/when")
    names = sorted(name for name in os.listdir(twin.mounted.root) if name in "a.json b.json c d")
    twin.run("rm -f a.json b.json; tar -xf $OUT/l.tar --hard-dereference ./c ./d; touch -d @8 .")
    same(names, ["a.json", "c", "d"], "what was unpacked")
    for side in twin.sides:
        script = "cd $OUT/l; tar --hard-dereference -cf ../l.tar ."
        same(twin.play(side, script)[0], 0, "making the archive without links")
    twin.run("tar -xf $OUT/l.tar; touch -d @9 .; cat a.json b.json c d")


@on_both("cpio", fill=many)
def test_cpio_copies_out_in_and_through(twin):
    twin.run(
        "find . ! -type p -print0 | sort -z | cpio -0 -o -H newc --quiet >$OUT/a.cpio; "
        "mkdir ../t; cd ../t; cpio -idm --quiet <$OUT/a.cpio; "
        "cpio -it --quiet <$OUT/a.cpio | wc -l; diff -r --no-dereference sub $ROOT/sub"
    )
    twin.run(
        "find . -depth ! -type p -print0 | cpio -0 -pdm --quiet ../through; "
        "find sub -print0 | cpio -0 -o --quiet -H odc >$OUT/b.cpio; "
        "cpio -iu --quiet <$OUT/b.cpio; "
        "cpio -i --quiet 'sub/*.jsonl' <$OUT/b.cpio 2>/dev/null; "
        "find sub -type d -exec touch -d @5 {} +; ls -A sub",
        status=0,
    )


@on_both("zip", "unzip", fill=many)
def test_zip_and_unzip(twin):
    twin.run(
        "zip -q -r -X -y $OUT/a.zip . -x odd/fifo; mkdir ../t; cd ../t; "
        "unzip -q $OUT/a.zip; diff -r sub $ROOT/sub; "
        "unzip -q -o $OUT/a.zip chat.jsonl 'sub/*'; "
        "unzip -p $OUT/a.zip state.json | cmp - state.json; "
        "unzip -tq $OUT/a.zip | sed 's,/.*/,,'"
    )
    twin.run(
        "zip -q on.zip chat.jsonl note.txt; zip -q -u on.zip state.json; "
        "zip -q -d on.zip note.txt; unzip -Z1 on.zip; zip -q -m on.zip mixed.jsonl; "
        "unzip -n -q on.zip mixed.jsonl; rm on.zip; ls -A"
    )


RESTIC = (
    "export RESTIC_PASSWORD=x RESTIC_CACHE_DIR=$OUT/cache; "
    "restic() { command restic -q \"$@\" >$OUT/said; }; "
)
LOCAL = "export RESTIC_REPOSITORY=$OUT/repo; "


@harness.soak
@on_both("restic", fill=many)
def test_restic_backs_up_a_mount_and_restores_into_it(twin):
    twin.run(RESTIC + LOCAL +
        "restic init; restic backup . && echo '{}' >>chat.jsonl && restic backup . && "
        "restic check && restic snapshots --json; "
        "tr , '\\n' <$OUT/said | grep -c short_id; mkdir ../t; "
        "restic restore latest --target ../t")
    twin.run(RESTIC +
        "export RESTIC_REPOSITORY=$ROOT/repo; "
        "restic init && restic backup sub && restic backup sub && "
        "restic check --read-data && restic restore latest --target ../u && "
        "restic forget --keep-last 1 --prune && restic check && diff -r sub ../u/sub; "
        "rm -rf repo; ls -A")


BORG = (
    "export BORG_UNKNOWN_UNENCRYPTED_REPO_ACCESS_IS_OK=yes "
    "BORG_RELOCATED_REPO_ACCESS_IS_OK=yes BORG_BASE_DIR=$OUT/borg; "
)


@harness.soak
@on_both("borg", fill=many)
def test_borg_backs_up_a_mount_and_restores_into_it(twin):
    # borg goes by inode numbers, which are each filesystem's own.
    twin.run(BORG +
        "borg init -e none $OUT/repo && borg create $OUT/repo::a . && "
        "echo '{}' >>chat.jsonl && "
        "borg create --list --filter=AM $OUT/repo::b . >$OUT/listed 2>&1 && "
        "sort $OUT/listed && mkdir ../t && "
        "cd ../t && borg extract $OUT/repo::b && borg check $OUT/repo && "
        "diff -r --no-dereference -x fifo . $ROOT")
    twin.run(BORG +
        "borg init -e none repo && borg create repo::a sub && "
        "borg create repo::b sub && borg check --verify-data repo && mkdir ../u && "
        "cd ../u && borg extract $ROOT/repo::b && diff -r sub $ROOT/sub && "
        "borg delete $ROOT/repo::a && borg compact $ROOT/repo && "
        "borg check $ROOT/repo; rm -rf $ROOT/repo")


if __name__ == "__main__":
    harness.main(globals())

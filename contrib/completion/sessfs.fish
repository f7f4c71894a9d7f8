# SPDX-License-Identifier: MIT
#
# Completion of sessfs command lines for fish: copy this file to ~/.config/fish/completions or
# /usr/local/share/fish/vendor_completions.d.

set -l commands mount umount check ls cat show search append put compact rm sessions stats events mounts import export backup restore gc config keep setup help

# The names in the store that is the first operand.
function __sessfs_names
    set -l words (commandline -opc)
    set -l operands (string match -rv -- '^-|^table=' $words[3..-1])
    set -q operands[1]; or return
    set -l dir (string match -r '.*/' -- (commandline -ct))
    for name in (sessfs ls -- $operands[1] "$dir" 2>/dev/null)
        echo "$dir$name"
    end
end

function __sessfs_needs_command
    test (count (commandline -opc)) -eq 1
end

function __sessfs_runs
    set -l words (commandline -opc)
    test (count $words) -gt 1; and contains -- $words[2] $argv
end

complete -c sessfs -n "not __sessfs_runs ls cat rm umount" -F
complete -c sessfs -n __sessfs_needs_command -f
complete -c sessfs -n "__sessfs_runs help" -f -a "$commands"
complete -c sessfs -n __sessfs_needs_command -l version -d 'Print the version'
complete -c sessfs -l help -d 'Print help'

complete -c sessfs -n __sessfs_needs_command -a mount -d 'Mount a store on a directory'
complete -c sessfs -n __sessfs_needs_command -a umount -d 'Unmount directories or stores'
complete -c sessfs -n __sessfs_needs_command -a check -d 'Check whether a store is intact'
complete -c sessfs -n __sessfs_needs_command -a ls -d 'List sessions, or the files of one'
complete -c sessfs -n __sessfs_needs_command -a cat -d 'Print files'
complete -c sessfs -n __sessfs_needs_command -a append -d 'Append lines to a file'
complete -c sessfs -n __sessfs_needs_command -a put -d 'Replace the content of a file, or create one'
complete -c sessfs -n __sessfs_needs_command -a compact -d 'Replace items of a list, if nobody has changed them'
complete -c sessfs -n __sessfs_needs_command -a keep -d 'Move the transcripts of coding agents into a mounted store'
complete -c sessfs -n __sessfs_needs_command -a rm -d 'Remove files or sessions'
complete -c sessfs -n __sessfs_needs_command -a sessions -d 'List sessions and their sizes'
complete -c sessfs -n __sessfs_needs_command -a stats -d 'Count what is in a store'
complete -c sessfs -n __sessfs_needs_command -a show -d 'Print conversations for people to read'
complete -c sessfs -n __sessfs_needs_command -a search -d 'Search for words in all sessions'
complete -c sessfs -n __sessfs_needs_command -a events -d 'Print changes in a store as they happen'
complete -c sessfs -n __sessfs_needs_command -a mounts -d 'List mounted stores'
complete -c sessfs -n __sessfs_needs_command -a import -d 'Copy existing files, or a bucket, into a store'
complete -c sessfs -n __sessfs_needs_command -a export -d 'Copy files to a folder, a tar stream or a bucket'
complete -c sessfs -n __sessfs_needs_command -a backup -d 'Copy a store, mounted or not, into one file or bucket'
complete -c sessfs -n __sessfs_needs_command -a restore -d 'Copy a backup to a store'
complete -c sessfs -n __sessfs_needs_command -a gc -d 'Remove old sessions, and restore them'
complete -c sessfs -n __sessfs_needs_command -a setup -d 'Create a store on a server, for users who may not'
complete -c sessfs -n '__sessfs_runs setup' -s n -l dry-run -d 'Change nothing, and print the SQL'
complete -c sessfs -n __sessfs_needs_command -a config -d 'Show and change the settings of a store'
complete -c sessfs -n __sessfs_needs_command -a help -d 'Print help about a command'

complete -c sessfs -n "__sessfs_runs mount" -s f -d 'Stay in the foreground'
complete -c sessfs -n "__sessfs_runs mount" -s d -d 'Log every request'
complete -c sessfs -n "__sessfs_runs mount" -s o -x -d 'Options' \
    -a 'ro allow_other uid= gid= umask= table= layout= strict exact exclusive durable max_size= quota= pause= ttl= grace= trash= view= threads= auto_unmount
        nonempty allow_dev allow_suid remount noexec debug'
complete -c sessfs -n "__sessfs_runs umount" -x -a '(__fish_complete_directories)'
complete -c sessfs -n "__sessfs_runs umount" -s l -l lazy -d 'Even if it is in use'
complete -c sessfs -n "__sessfs_runs umount" -s f -l force -d 'Stop the daemon'
complete -c sessfs -n "__sessfs_runs backup restore" -l force -d 'Replace an existing one'
complete -c sessfs -n "__sessfs_runs backup restore gc" -l json -d 'Print JSON'
complete -c sessfs -n "__sessfs_runs backup restore gc" -s o -x -a 'table='
complete -c sessfs -n "__sessfs_runs gc" -l older-than -x -d 'Not changed for this long'
complete -c sessfs -n "__sessfs_runs gc" -l larger-than -x -d 'Larger than this'
complete -c sessfs -n "__sessfs_runs gc" -l keep-last -x -d 'All except the last N'
complete -c sessfs -n "__sessfs_runs gc" -l name -x -d 'Whose name matches a pattern'
complete -c sessfs -n "__sessfs_runs gc" -l grace -x -d 'How long they can be restored'
complete -c sessfs -n "__sessfs_runs gc" -s n -l dry-run -d 'Print what would be removed'
complete -c sessfs -n "__sessfs_runs gc" -l list -d 'List what can be restored'
complete -c sessfs -n "__sessfs_runs gc" -l undo -d 'Restore what was removed'
complete -c sessfs -n "__sessfs_runs check" -l repair -d 'Copy what is intact into a new store'
complete -c sessfs -n "__sessfs_runs check ls cat show search rm sessions stats events" -s o -x -a 'table='
complete -c sessfs -n "__sessfs_runs compact" -l first -x -d 'The first N items'
complete -c sessfs -n "__sessfs_runs compact" -l items -x -d 'The items with these indexes'
complete -c sessfs -n "__sessfs_runs compact" -l if -x -d 'The version that the list had'
complete -c sessfs -n "__sessfs_runs keep" -a 'claude cline codex copilot gemini kimi opencode pi qwen' -d Client
complete -c sessfs -n "__sessfs_runs keep" -l undo -d 'Replace the links with folders again'
complete -c sessfs -n "__sessfs_runs keep" -l status -d 'List what has been moved'
complete -c sessfs -n "__sessfs_runs keep" -l bind -d 'Bind mounts instead of links'
complete -c sessfs -n "__sessfs_runs append put compact" -s o -x -a 'table= strict exact'
complete -c sessfs -n "__sessfs_runs ls search sessions stats mounts" -l json -d 'Print JSON'
complete -c sessfs -n "__sessfs_runs ls" -s l -d 'With mode, size and time'
complete -c sessfs -n "__sessfs_runs ls" -s h -l human-readable -d 'Sizes with units'
complete -c sessfs -n "__sessfs_runs show" -s f -l follow -d 'Also what is added later'
complete -c sessfs -n "__sessfs_runs show search" -s a -l all -d 'Also what nobody has said'
complete -c sessfs -n "__sessfs_runs show" -l html -d 'A page of HTML'
complete -c sessfs -n "__sessfs_runs show" -l last -x -d 'The last N messages'
complete -c sessfs -n "__sessfs_runs search" -l session -x -d 'Only sessions whose name or id matches'
complete -c sessfs -n "__sessfs_runs search" -l role -x -a 'user assistant tool system' -d 'Only what this role said'
complete -c sessfs -n "__sessfs_runs search" -l since -x -d 'Created at this time or later'
complete -c sessfs -n "__sessfs_runs search" -s n -x -d 'At most N items'
complete -c sessfs -n "__sessfs_runs events" -l since -x -d 'Start after this event'
complete -c sessfs -n "__sessfs_runs rm" -s r -d 'Also directories'
complete -c sessfs -n "__sessfs_runs sessions" -s t -l titles -d 'With the first words that a person wrote'
complete -c sessfs -n "__sessfs_runs sessions" -l sort -x -a 'id age size items' -d 'Order'
complete -c sessfs -n "__sessfs_runs sessions" -l older-than -x -d 'Not changed for this long'
complete -c sessfs -n "__sessfs_runs sessions" -l newer-than -x -d 'Changed in this time'
complete -c sessfs -n "__sessfs_runs sessions" -l larger-than -x -d 'Larger than this'
complete -c sessfs -n "__sessfs_runs sessions" -l name -x -d 'Whose name matches a pattern'
complete -c sessfs -n "__sessfs_runs ls cat show append put compact rm events" -a '(__sessfs_names)'
complete -c sessfs -n "__sessfs_runs config" -a 'strict= exact= max_size= quota= ttl= grace= trash= pause= layout= table='
complete -c sessfs -n "__sessfs_runs import" -s o -x -a 'table= strict exact'
complete -c sessfs -n "__sessfs_runs export" -s o -x -a 'table='
complete -c sessfs -n "__sessfs_runs import export" -l json -d 'Print JSON'
complete -c sessfs -n "__sessfs_runs import" -l layout -x -d 'The format of the source' \
    -a 'tree agentscope-files agentscope-rows strands strands-snapshots claude-parts agentscope'
complete -c sessfs -n "__sessfs_runs import" -l to -x -d 'A directory of the store'
complete -c sessfs -n "__sessfs_runs import" -l from-table -x -d 'The older table'
complete -c sessfs -n "__sessfs_runs import" -s n -l dry-run -d 'Change nothing'
complete -c sessfs -n "__sessfs_runs import" -s c -l checksum -d 'Compare the bytes'
complete -c sessfs -n "__sessfs_runs export" -s f -l force -d 'Also to a folder that is not empty'
complete -c sessfs -n "__sessfs_runs export" -l layout -x -d 'Of a bucket' \
	-a 'strands strands-snapshots claude-parts agentscope'
complete -c sessfs -n "__sessfs_runs export" -s n -l dry-run -d 'Change nothing'
complete -c sessfs -n "__sessfs_runs import export" -l session -x -d 'With a bucket: sessions with such ids'
complete -c sessfs -n "__sessfs_runs import export" -l watch -d 'With a bucket: go on, round after round'
complete -c sessfs -n "__sessfs_runs import export" -l every -x -d 'From one round to the next'
complete -c sessfs -n "__sessfs_runs import export" -l delete -d 'With a bucket: also delete what the source has no more'
complete -c sessfs -n "__sessfs_runs import export backup restore" -l endpoint -x -d 'The server of a bucket'
complete -c sessfs -n "__sessfs_runs import export backup restore" -l region -x -d 'The region of a bucket'
complete -c sessfs -n "__sessfs_runs import export backup restore" -l style -x -a 'path host' -d 'Where the name of a bucket stands'
complete -c sessfs -n "__sessfs_runs backup" -l keep -x -d 'In a bucket: the latest N stay'

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
complete -c sessfs -l help -d 'Tell how it is used'

complete -c sessfs -n __sessfs_needs_command -a mount -d 'Show a store as a directory'
complete -c sessfs -n __sessfs_needs_command -a umount -d 'End a mount'
complete -c sessfs -n __sessfs_needs_command -a check -d 'Tell whether a store is sound'
complete -c sessfs -n __sessfs_needs_command -a ls -d 'List sessions, or the files of one'
complete -c sessfs -n __sessfs_needs_command -a cat -d 'Print files'
complete -c sessfs -n __sessfs_needs_command -a append -d 'Append lines to a file'
complete -c sessfs -n __sessfs_needs_command -a put -d 'Replace the content of a file'
complete -c sessfs -n __sessfs_needs_command -a compact -d 'Replace items of a list'
complete -c sessfs -n __sessfs_needs_command -a keep -d 'Move transcripts of clients into a store'
complete -c sessfs -n __sessfs_needs_command -a rm -d 'Remove files or sessions'
complete -c sessfs -n __sessfs_needs_command -a sessions -d 'List sessions with what they hold'
complete -c sessfs -n __sessfs_needs_command -a stats -d 'Count what a store holds'
complete -c sessfs -n __sessfs_needs_command -a show -d 'Print conversations for people'
complete -c sessfs -n __sessfs_needs_command -a search -d 'Find what was said'
complete -c sessfs -n __sessfs_needs_command -a events -d 'Tell what changes, as it happens'
complete -c sessfs -n __sessfs_needs_command -a mounts -d 'Tell what is mounted where'
complete -c sessfs -n __sessfs_needs_command -a import -d 'Take in files that are there already'
complete -c sessfs -n __sessfs_needs_command -a export -d 'Hand files out'
complete -c sessfs -n __sessfs_needs_command -a backup -d 'Copy a store into one file'
complete -c sessfs -n __sessfs_needs_command -a restore -d 'Make a store of a backup'
complete -c sessfs -n __sessfs_needs_command -a gc -d 'Remove old sessions, bring them back'
complete -c sessfs -n __sessfs_needs_command -a setup -d 'Make a store on a server'
complete -c sessfs -n '__sessfs_runs setup' -s n -l dry-run -d 'Change nothing, and print the SQL'
complete -c sessfs -n __sessfs_needs_command -a config -d 'Settings of a store'
complete -c sessfs -n __sessfs_needs_command -a help -d 'Tell more about a command'

complete -c sessfs -n "__sessfs_runs mount" -s f -d 'Stay in the foreground'
complete -c sessfs -n "__sessfs_runs mount" -s d -d 'Log every request'
complete -c sessfs -n "__sessfs_runs mount" -s o -x -d 'Options' \
    -a 'ro allow_other uid= gid= umask= table= layout= strict exact exclusive durable max_size= quota= pause= ttl= grace= trash= view= threads= auto_unmount
        nonempty allow_dev allow_suid remount noexec debug'
complete -c sessfs -n "__sessfs_runs umount" -x -a '(__fish_complete_directories)'
complete -c sessfs -n "__sessfs_runs umount" -s l -l lazy -d 'Also when it is in use'
complete -c sessfs -n "__sessfs_runs umount" -s f -l force -d 'End the daemon'
complete -c sessfs -n "__sessfs_runs backup restore" -l force -d 'Replace what is there'
complete -c sessfs -n "__sessfs_runs backup restore gc" -l json -d 'Print JSON'
complete -c sessfs -n "__sessfs_runs backup restore gc" -s o -x -a 'table='
complete -c sessfs -n "__sessfs_runs gc" -l older-than -x -d 'Not changed for so long'
complete -c sessfs -n "__sessfs_runs gc" -l larger-than -x -d 'Of more bytes'
complete -c sessfs -n "__sessfs_runs gc" -l keep-last -x -d 'All but so many'
complete -c sessfs -n "__sessfs_runs gc" -l name -x -d 'With a name that fits a pattern'
complete -c sessfs -n "__sessfs_runs gc" -l grace -x -d 'How long they can be brought back'
complete -c sessfs -n "__sessfs_runs gc" -s n -l dry-run -d 'Do nothing'
complete -c sessfs -n "__sessfs_runs gc" -l list -d 'What can be brought back'
complete -c sessfs -n "__sessfs_runs gc" -l undo -d 'Bring sessions back'
complete -c sessfs -n "__sessfs_runs check" -l repair -d 'Rescue what is whole'
complete -c sessfs -n "__sessfs_runs check ls cat show search rm sessions stats events" -s o -x -a 'table='
complete -c sessfs -n "__sessfs_runs compact" -l first -x -d 'The first so many items'
complete -c sessfs -n "__sessfs_runs compact" -l items -x -d 'Those with these indexes'
complete -c sessfs -n "__sessfs_runs compact" -l if -x -d 'The version that the list had'
complete -c sessfs -n "__sessfs_runs keep" -a 'claude codex gemini opencode pi' -d Client
complete -c sessfs -n "__sessfs_runs keep" -l undo -d 'Make folders of the links again'
complete -c sessfs -n "__sessfs_runs keep" -l status -d 'Say what is kept'
complete -c sessfs -n "__sessfs_runs keep" -l bind -d 'Bind mounts instead of links'
complete -c sessfs -n "__sessfs_runs append put compact" -s o -x -a 'table= strict exact'
complete -c sessfs -n "__sessfs_runs ls search sessions stats mounts" -l json -d 'Print JSON'
complete -c sessfs -n "__sessfs_runs ls" -s l -d 'Mode, size and time, too'
complete -c sessfs -n "__sessfs_runs ls" -s h -l human-readable -d 'Sizes with units'
complete -c sessfs -n "__sessfs_runs show" -s f -l follow -d 'Go on with what is added'
complete -c sessfs -n "__sessfs_runs show" -l last -x -d 'So many items'
complete -c sessfs -n "__sessfs_runs search" -l session -x -d 'In sessions with such names'
complete -c sessfs -n "__sessfs_runs search" -l role -x -a 'user assistant tool system' -d 'Said by'
complete -c sessfs -n "__sessfs_runs search" -l since -x -d 'Made then or later'
complete -c sessfs -n "__sessfs_runs search" -s n -x -d 'So many'
complete -c sessfs -n "__sessfs_runs events" -l since -x -d 'Behind this event'
complete -c sessfs -n "__sessfs_runs rm" -s r -d 'Directories, too'
complete -c sessfs -n "__sessfs_runs sessions" -s t -l titles -d 'What a person wrote first'
complete -c sessfs -n "__sessfs_runs sessions" -l sort -x -a 'id age size items' -d 'Order'
complete -c sessfs -n "__sessfs_runs sessions" -l older-than -x -d 'Not changed for so long'
complete -c sessfs -n "__sessfs_runs sessions" -l newer-than -x -d 'Changed in that time'
complete -c sessfs -n "__sessfs_runs sessions" -l larger-than -x -d 'Of more bytes'
complete -c sessfs -n "__sessfs_runs sessions" -l name -x -d 'With a name that fits a pattern'
complete -c sessfs -n "__sessfs_runs ls cat show append put compact rm events" -a '(__sessfs_names)'
complete -c sessfs -n "__sessfs_runs config" -a 'strict= exact= max_size= quota= ttl= grace= trash= pause= layout= table='
complete -c sessfs -n "__sessfs_runs import" -s o -x -a 'table= strict exact'
complete -c sessfs -n "__sessfs_runs export" -s o -x -a 'table='
complete -c sessfs -n "__sessfs_runs import export" -l json -d 'Print JSON'
complete -c sessfs -n "__sessfs_runs import" -l layout -x -d 'What is taken in' \
    -a 'tree agentscope-files agentscope-rows'
complete -c sessfs -n "__sessfs_runs import" -l to -x -d 'A directory of the store'
complete -c sessfs -n "__sessfs_runs import" -l from-table -x -d 'The older table'
complete -c sessfs -n "__sessfs_runs import" -s n -l dry-run -d 'Change nothing'
complete -c sessfs -n "__sessfs_runs import" -s c -l checksum -d 'Compare all bytes'
complete -c sessfs -n "__sessfs_runs export" -s f -l force -d 'A folder in use, too'

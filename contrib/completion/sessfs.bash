# SPDX-License-Identifier: MIT
# shellcheck shell=bash
#
# Completion of sessfs command lines for bash: source this file, or copy it to
# /usr/local/share/bash-completion/completions/sessfs.

_sessfs() {
	local word=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD - 1]}
	local options='ro allow_other uid= gid= umask= table= strict exact max_size= pause= threads=
		auto_unmount nonempty allow_dev allow_suid remount noexec debug'
	local head=

	COMPREPLY=()
	if ((COMP_CWORD == 1)); then
		mapfile -t COMPREPLY < <(compgen -W 'mount umount check help --help --version' -- "$word")
	elif [[ $before == help ]]; then
		mapfile -t COMPREPLY < <(compgen -W 'mount umount check' -- "$word")
	elif [[ $before == -o ]]; then
		[[ $word == *,* ]] && head=${word%,*},
		mapfile -t COMPREPLY < <(compgen -P "$head" -W "$options" -- "${word##*,}")
		compopt -o nospace
	elif [[ $word == -* && ${COMP_WORDS[1]} == mount ]]; then
		mapfile -t COMPREPLY < <(compgen -W '-f -d -o --help' -- "$word")
	else
		mapfile -t COMPREPLY < <(compgen -f -- "$word")
		compopt -o filenames
	fi
}
complete -F _sessfs sessfs

# SPDX-License-Identifier: MIT
"""Strands Agents with its sessions on a mount.

    python3 strands_sessions.py ~/sessions demo hello

FileSessionManager is given the mount as storage_dir; each message is a document of its own, with
the key agents/agent_AGENT/messages/message_N in the session session_ID.  With an agent, write

    manager = FileSessionManager(session_id="demo", storage_dir=mount)
    agent = Agent(session_manager=manager)

Below are the calls that the agent would make, so that the example runs without a model.
"""

import sys

from strands.session.file_session_manager import FileSessionManager
from strands.types.session import SessionAgent, SessionMessage


def main(mount, session_id, text):
    manager = FileSessionManager(session_id=session_id, storage_dir=mount)
    if manager.read_agent(session_id, "example") is None:
        agent = SessionAgent(agent_id="example", state={}, conversation_manager_state={})
        manager.create_agent(session_id, agent)
    count = len(manager.list_messages(session_id, "example"))
    message = {"role": "user", "content": [{"text": text}]}
    manager.create_message(session_id, "example", SessionMessage(message, count))
    print(f"{len(manager.list_messages(session_id, 'example'))} messages")


if __name__ == "__main__":
    main(*sys.argv[1:4])

# SPDX-License-Identifier: MIT
"""AgentScope for Python 1.x with its sessions on a mount.

    python3 agentscope_sessions.py ~/sessions demo hello

JSONSession writes one file SESSION.json (or USER_SESSION.json) into its folder.  At the root of a
mount that would be an ordinary file; in a folder of the mount, which is a session, it is a
document, which SQL sees as the key SESSION.  So save_dir is a folder in the mount.
"""

import asyncio
import os
import sys

from agentscope.module import StateModule
from agentscope.session import JSONSession


class Counter(StateModule):
    """Like an agent, something whose state can be saved."""

    def __init__(self):
        super().__init__()
        self.turns = 0
        self.said = []
        self.register_state("turns")
        self.register_state("said")


async def main(mount, session_id, text):
    session = JSONSession(save_dir=os.path.join(mount, "agentscope"))
    agent = Counter()
    await session.load_session_state(session_id=session_id, agent=agent)
    agent.turns += 1
    agent.said.append(text)
    await session.save_session_state(session_id=session_id, agent=agent)
    print(f"{agent.turns} turns")


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:4]))

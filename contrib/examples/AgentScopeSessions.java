// SPDX-License-Identifier: MIT
//
// AgentScope Java 1.x with its sessions on a mount: JsonSession gets a folder in the mount, and
// nothing else changes.  Each run loads the session, adds a turn, and saves it.
//
//	java -cp "$(your build's class path)" AgentScopeSessions.java ~/sessions demo "hello"
//
// Your own agent has the same three lines, with components instead of records:
//
//	agent.loadIfExists(session, "demo");
//	Msg answer = agent.call(message).block();
//	agent.saveTo(session, "demo");
//
// 2.x has new JsonFileAgentStateStore(folder) in place of JsonSession; there the first folder is the
// user ("__anon__" without one), so the session in the store is the user, and the keys are SESSION/KEY.

import io.agentscope.core.session.JsonSession;
import io.agentscope.core.session.Session;
import io.agentscope.core.state.SessionKey;
import io.agentscope.core.state.SimpleSessionKey;
import io.agentscope.core.state.State;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

public class AgentScopeSessions {
	public record Turn(String role, String content) implements State {}

	public record Meta(String name, int turns) implements State {}

	public static void main(String[] words) {
		Session session = new JsonSession(Path.of(words[0]));
		SessionKey id = SimpleSessionKey.of(words[1]);

		List<Turn> memory = new ArrayList<>(session.getList(id, "memory_messages", Turn.class));
		memory.add(new Turn("user", words[2]));
		memory.add(new Turn("assistant", "You have said: " + words[2]));

		session.save(id, "memory_messages", memory);
		session.save(id, "agent_meta", new Meta("example", memory.size() / 2));
		System.out.println(memory.size() + " messages in " + session.listSessionKeys());
	}
}

#!/bin/sh
# SPDX-License-Identifier: MIT
#
# s3rver 3.7.1: an object that the AWS SDK uploads from a stream is stored with its frames.
#
# The SDK for JavaScript sends the body of a stream in pieces, each behind a line with its size, and
# the checksum behind the last one ("content-encoding: aws-chunked", STREAMING-UNSIGNED-PAYLOAD-
# TRAILER).  It does so by default from 3.729 on, before only when a checksum was asked for.  The
# emulator takes frames off that are signed one by one, and stores these: the upload succeeds, and
# each reader gets other bytes and another size than were sent.  Strings and buffers are right, since
# their checksum is a header.
#
# Seen with s3rver 3.7.1 and @aws-sdk/client-s3 3.1175.0 and 3.700.0 on Node.js 20; sent are the 12
# bytes "hello world\n":
#	3.1175.0, a string: 12 bytes, the same
#	3.1175.0, a stream: 53 bytes, c\r\nhello world\n\r\n0\r\nx-amz-checksum-crc32:...
#	3.700.0, a stream: 12 bytes, the same
#
# Needs node, from 20 on, and npm; installs into a temporary directory.  Ends with 0 if it is still
# so.
set -eu

dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
trap 'exit 1' INT TERM HUP

cd "$dir"
cat >upload.cjs <<'END'
const fs = require("fs");
const S3rver = require("s3rver");
const { S3Client, PutObjectCommand, GetObjectCommand } = require("@aws-sdk/client-s3");
const version = require("@aws-sdk/client-s3/package.json").version;
const sent = "hello world\n";

async function main() {
	fs.writeFileSync("sent", sent);
	fs.mkdirSync("objects", { recursive: true });
	const server = new S3rver({ address: "127.0.0.1", port: 0, silent: true,
		directory: `${process.cwd()}/objects`, configureBuckets: [{ name: "bucket" }] });
	const { port } = await server.run();
	const client = new S3Client({ endpoint: `http://127.0.0.1:${port}`, region: "us-east-1",
		forcePathStyle: true,
		credentials: { accessKeyId: "S3RVER", secretAccessKey: "S3RVER" } });
	const bodies = { "a string": () => sent, "a stream": () => fs.createReadStream("sent") };

	for (const [what, body] of Object.entries(bodies)) {
		const at = { Bucket: "bucket", Key: what };

		await client.send(new PutObjectCommand({ ...at, Body: body(),
			ContentLength: sent.length }));
		const got = await client.send(new GetObjectCommand(at));
		const bytes = await got.Body.transformToString();
		console.log(`${version}, ${what}: ${bytes.length} bytes, ` + (bytes === sent ?
			"the same" : JSON.stringify(bytes).slice(1, -1)));
	}
	await server.close();
}
main().then(() => process.exit(0), error => { console.error(error); process.exit(1); });
END

for version in 3.1175.0 3.700.0; do
	npm install --prefix "$dir" --no-audit --no-fund s3rver@3.7.1 "@aws-sdk/client-s3@$version" \
		>npm.log 2>&1 || { cat npm.log >&2; exit 1; }
	node upload.cjs 2>node.log || { cat node.log >&2; exit 1; }
done | tee seen

cat >expected <<'END'
3.1175.0, a string: 12 bytes, the same
3.1175.0, a stream: 53 bytes, c\r\nhello world\n\r\n0\r\nx-amz-checksum-crc32:rwg7LQ==\r\n\r\n
3.700.0, a string: 12 bytes, the same
3.700.0, a stream: 12 bytes, the same
END
cmp -s seen expected || { echo "it has changed" >&2; exit 1; }

// The official TypeScript client lists and calls tools; what it saw is printed as JSON. Arguments: its package, a URL,
// and how to agree on a version: legacy, auto, or a version.
const [from, url, mode] = process.argv.slice(2);
const { Client, StreamableHTTPClientTransport } = await import(from);

const how = ["legacy", "auto"].includes(mode) ? mode : { pin: mode };
const client = new Client({ name: "visitor", version: "1" }, { versionNegotiation: { mode: how } });
await client.connect(new StreamableHTTPClientTransport(new URL(url)));
const { tools } = await client.listTools();
const written = await client.callTool({ name: "write", arguments: { text: "from afar" } });
const failed = await client.callTool({ name: "fail", arguments: { why: "no luck" } });
const seen = { tools: tools.map((tool) => tool.name), written: written.structuredContent, failed };
console.log(JSON.stringify({ ...seen, version: client.getNegotiatedProtocolVersion?.() }));
await client.close();

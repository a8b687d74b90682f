// spider-rs by its Node binding: a crawl a host, all at once; it hands over links and the page's HTML.
import { readFileSync, writeFileSync } from "node:fs";
import { createRequire } from "node:module";

const { Website } = createRequire(process.env.PEER_HOME + "/")("@spider-rs/spider-rs");
const [out, seeds] = process.argv.slice(2);
const urls = [];

async function crawl(seed) {
  const website = new Website(seed).withRespectRobotsTxt(true).withDelay(0).build();
  await website.crawl((error, page) => page && urls.push(page.url));
}

await Promise.all(readFileSync(seeds, "utf8").trim().split("\n").map(crawl));
writeFileSync(out, urls.join("\n") + "\n");

// Threads of the binding would keep Node alive for minutes after the last page.
process.exit(0);

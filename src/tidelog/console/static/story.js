// Gives the lab's page a playback of the cluster's last election.
import { get } from "/api.js";

try {
  const search = new URLSearchParams(location.search);
  document.getElementById("playbacks").textContent = JSON.stringify(await get("story", { topic: search.get("topic"), partition: search.get("partition") }));
  await import("/lab/page.js");
} catch (error) {
  document.getElementById("source").textContent = error.message;
  document.getElementById("controls").hidden = true;
}
